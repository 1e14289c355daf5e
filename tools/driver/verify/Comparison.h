//===- Comparison.h - Whether two tensors are the same ----------*- C++ -*-===//
//
// Private to tools/driver/.
//
// The tolerance t of a dtype: float64 and complex128 1e-9, float32 and complex64 1e-5, float16 1e-2, bfloat16
// 3e-2. An element whose original is e may be off by
//
//   t · |e|,  or by  min(t · max(1, s), r · s)  where that is more,  with r = min(100 · t, 0.1),
//
// where s is the typical magnitude of the tensor's elements, so that neither a few huge elements (masks of
// -1e9 or -3.4e38) nor the constant 1 hides wrong small elements. Where the plan computes products in
// bfloat16 (--dtype bf16), t is bfloat16's if that is more, whatever the output's dtype: each operand and
// result is rounded by up to 2^-9 = 2.0e-3 of itself, and the roundings of a model's layers add up like a
// random walk. Measured: up to 0.55 of what is so allowed, over 37 models (docs/results.md). A float64 output
// of a model whose weights are float32 is a cast of what float32 gave, so t is float32's. NaNs and
// infinities must stand in the same places; integers and bools must be equal.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_COMPARISON_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_COMPARISON_H

#include "codegen/plan/Plan.h"
#include <ATen/core/Tensor.h>
#include <optional>

namespace cleave {

struct Comparison {
  bool isSame = true;
  /// Largest |found − expected|, and largest |found − expected| / max(s, |expected|).
  double maxAbsError = 0, maxRelError = 0;
  /// Error and limit of the element that exceeds its limit most, or is nearest to it.
  double error = 0, allowed = 0;
};

/// t.
double toleranceOf(at::ScalarType dtype);

/// The dtype in which the plan computes what it may return in a wider one: that of its products (--dtype), or
/// float32 where weights are float32 and none are float64.
std::optional<at::ScalarType> computeDTypeOf(const plan::Plan &plan);

/// Largest magnitude of a tensor's finite elements, capped at max(1, 16 times the median of those that are
/// not 0). Masks are left out: elements of at least 1e4 that lie within a factor of 2 of each other and are
/// at least 100 times as large as every other element. Of large tensors, about a million elements are
/// sampled.
double typicalMagnitude(const at::Tensor &tensor);

/// Different dtypes or shapes are an infinite error.
///
/// \param computeDType  dtype in which `found` was computed, where its own is wider (computeDTypeOf).
Comparison compare(const at::Tensor &found, const at::Tensor &expected,
                   std::optional<at::ScalarType> computeDType = std::nullopt);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_COMPARISON_H
