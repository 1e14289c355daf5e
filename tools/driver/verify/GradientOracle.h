//===- GradientOracle.h - Whether gradients are the same --------*- C++ -*-===//
//
// The gradient of a weight whose original is g may be off, in any element, by
//
//   d = 1e-5 · max|g| + 1e-6 · (the largest |g| of all weights).
//
// Where one is off by more, the original runs again in float64 (g64): the plan is right if
// max|plan − g64| <= 3 · max|g − g64|, since then rounding alone makes the original differ as much. NaNs and
// infinities must stand in the same places. A weight without a gradient has one of zeros.
//
// Trained weights are compared element by element after a few steps. SGD is linear in the gradients:
// an element may be off by the learning rates times 4 · d. Adam and AdamW divide by the gradient's size:
// an element may be off by (the sum over steps t of its learning rate) times
//
//   min(4 · d / |g₁|, 2 · √t)
//
// where |g₁| is its gradient in the first step. So an element whose gradient is nearly 0, of which they take
// the sign, may have moved the other way, and is in effect left out; one whose gradient is the tensor's
// largest must agree to 4e-5 of what it has moved. Where a weight is off by more, d becomes that plus 4 ·
// max|g − g64| of any step. Both allow for rounding of the weight itself.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_GRADIENTORACLE_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_GRADIENTORACLE_H

#include "tools/driver/verify/VerifyReport.h"
#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/Tensor.h>

namespace cleave {

/// Distance of 1 from the next number.
double epsilonOf(at::ScalarType dtype);

/// Largest finite magnitude; 0 of an undefined tensor.
double largestOf(const at::Tensor &tensor);
/// That of all tensors.
double largestOf(llvm::ArrayRef<at::Tensor> tensors);

/// Largest |a − b|; infinite where dtypes (unless one is float64) or shapes differ, or where one is not
/// finite and the other differs. Undefined tensors are zeros.
double largestDifference(const at::Tensor &a, const at::Tensor &b);

/// d, of a tensor and a model whose gradients have these largest magnitudes.
double allowedGradientError(double largestOfTensor, double largestOfModel);

/// Compares a gradient; undefined means that there is none.
/// \param rounding  allowed besides d.
VerifyReport::Compared compareGradient(const at::Tensor &found, const at::Tensor &expected,
                                       double largestOfModel, double rounding = 0);
/// Compares one that `compareGradient` did not pass with a run in float64, and changes `compared` if it
/// passes.
void compareWithFloat64(VerifyReport::Compared &compared, const at::Tensor &found, const at::Tensor &expected,
                        const at::Tensor &wide);

/// How a weight was trained by the original.
struct WeightSteps {
  bool isAdam;
  /// Of each step.
  std::vector<double> learningRates;
  /// d.
  double gradientError;
  /// g₁; undefined: no step has changed the weight.
  at::Tensor firstGradient;
};
VerifyReport::Compared compareWeight(const at::Tensor &found, const at::Tensor &expected,
                                     const WeightSteps &steps);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_GRADIENTORACLE_H
