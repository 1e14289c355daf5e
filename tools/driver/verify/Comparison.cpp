//===- Comparison.cpp - Whether two tensors are the same ------------------===//
#include "tools/driver/verify/Comparison.h"
#include "runtime/base/DTypes.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/ATen.h>
#include <limits>

namespace cleave {

double toleranceOf(at::ScalarType dtype) {
  switch (dtype) {
  case at::kDouble:
  case at::kComplexDouble:
    return 1e-9;
  case at::kHalf:
    return 1e-2;
  case at::kBFloat16:
    return 3e-2;
  default:
    return 1e-5;
  }
}

std::optional<at::ScalarType> computeDTypeOf(const plan::Plan &plan) {
  if (plan.precision != plan::DType::Unknown)
    return runtime::scalarTypeOf(plan.precision);
  auto has = [&](plan::DType dtype) {
    return llvm::any_of(
        plan.weights, [&](const auto &weight) { return weight->dtype == dtype && !weight->wrapped_number; });
  };
  if (has(plan::DType::Float) && !has(plan::DType::Double))
    return at::kFloat;
  return std::nullopt;
}

/// Finite nonzero magnitudes, ascending.
static std::vector<double> magnitudesOf(const at::Tensor &tensor) {
  constexpr int64_t kMaxLookedAt = 1 << 20;
  at::Tensor flat = tensor.reshape({-1});
  // An odd step does not hit the same column in every row of a matrix with an even number of columns.
  if (flat.numel() > kMaxLookedAt)
    flat = flat.slice(0, 0, flat.numel(), (flat.numel() / kMaxLookedAt + 1) | 1);
  at::Tensor sizes = flat.to(flat.is_complex() ? at::kComplexDouble : at::kDouble).abs();
  sizes = std::get<0>(sizes.masked_select(at::logical_and(sizes.isfinite(), sizes > 0)).sort());
  const double *first = sizes.const_data_ptr<double>();
  return {first, first + sizes.numel()};
}

double typicalMagnitude(const at::Tensor &tensor) {
  constexpr double kMinMask = 1e4, kMaskGap = 100, kMaskSpread = 2, kLargestOverMedian = 16;
  std::vector<double> sizes = magnitudesOf(tensor);
  if (sizes.empty())
    return 0;
  // There may be masks of several sizes, such as -1e9 and -3.4e38.
  for (size_t i = sizes.size() - 1; i > 0 && sizes[i] >= kMinMask && sizes.back() <= kMaskSpread * sizes[i];
       --i)
    if (sizes[i] >= kMaskGap * sizes[i - 1])
      sizes.resize(i);
  double largest = sizes.back(), median = sizes[sizes.size() / 2];
  return std::min(largest, std::max(1.0, kLargestOverMedian * median));
}

Comparison compare(const at::Tensor &found, const at::Tensor &expected,
                   std::optional<at::ScalarType> computeDType) {
  Comparison result;
  if (found.scalar_type() != expected.scalar_type() || found.sizes() != expected.sizes()) {
    result.isSame = false;
    result.error = result.maxAbsError = result.maxRelError = std::numeric_limits<double>::infinity();
    return result;
  }
  if (expected.numel() == 0)
    return result;
  auto wide = expected.is_complex() ? at::kComplexDouble : at::kDouble;
  at::Tensor a = found.to(wide), b = expected.to(wide);
  // Infinities and NaNs must stand in the same places; elsewhere the difference counts.
  at::Tensor same = at::logical_or(a == b, at::logical_and(a.isnan(), b.isnan()));
  at::Tensor difference = (a - b).abs();
  difference.masked_fill_(at::logical_not(difference.isfinite()), std::numeric_limits<double>::infinity());
  difference.masked_fill_(same, 0);
  result.maxAbsError = difference.max().item<double>();
  // double cannot represent all large integers.
  if (c10::isIntegralType(expected.scalar_type(), /*includeBool=*/true)) {
    result.error = result.maxRelError = result.maxAbsError;
    result.isSame = at::equal(found, expected);
    return result;
  }
  double tolerance = toleranceOf(expected.scalar_type());
  if (computeDType)
    tolerance = std::max(tolerance, toleranceOf(*computeDType));
  double size = typicalMagnitude(expected);
  double common = std::min(tolerance * std::max(1.0, size), std::min(100 * tolerance, 0.1) * size);
  // Kernels may take less than that for 0.
  common = std::max<double>(common, wide == expected.scalar_type() ? std::numeric_limits<double>::min()
                                                                   : std::numeric_limits<float>::min());
  at::Tensor magnitude = b.abs();
  magnitude.masked_fill_(at::logical_not(magnitude.isfinite()), 0);
  at::Tensor allowed = (magnitude * tolerance).clamp_min(common);
  result.isSame = (difference <= allowed).all().item<bool>();
  // An element that must match exactly, and does, is not the worst one.
  constexpr double kLeast = std::numeric_limits<double>::min();
  int64_t worst = (difference / allowed.clamp_min(kLeast)).argmax().item<int64_t>();
  result.error = difference.flatten()[worst].item<double>();
  result.allowed = allowed.flatten()[worst].item<double>();
  result.maxRelError = (difference / magnitude.clamp_min(std::max(size, kLeast))).max().item<double>();
  return result;
}

} // namespace cleave
