//===- GradientTolerance.h - Whether gradients are the same -----*- C++ -*-===//
//
// Gradients. g is the original's gradient of a weight. Each element may differ by
//
//   d = 1e-5 · max|g| + 1e-6 · (max|g| over all weights).
//
// If one differs by more, the original runs again in float64 (g64), and the gradient passes if
// max|plan − g64| <= 3 · max|g − g64|: its error is at most three times the original's own. That does not
// apply if g itself is off by more than 1 % of max|g| (25 % for narrow dtypes), as the model then takes
// another branch in float64. A missing gradient counts as zeros. NaNs and infinities must be in the same
// places.
//
// Trained weights, each element, with learning rates lr_t of the steps t = 1, 2, …, and d of the largest
// gradients of any step:
//
//   SGD: Σ lr_t · 4d. The update is linear in the gradient.
//   Adam, AdamW: Σ lr_t · min(4d / |g₁|, 2√t), g₁ the element's gradient in the first step, before clipping.
//   The update divides by the gradient's magnitude; if g₁ is nearly 0, rounding decides the direction, and
//   the bound is as large as the update.
//
// If anything in a training differs by more (a loss, a norm, a gradient, a state or a weight), the original
// trains again in float64, and d grows by 4 · max|g − g64| over all steps. Rounding of the weight itself is
// added: 2 · epsilon · |weight| a step.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_GRADIENTTOLERANCE_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_GRADIENTTOLERANCE_H

#include "tools/driver/verify/VerifyReport.h"
#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/Tensor.h>

namespace cleave {

/// Distance of 1 from the next number.
double epsilonOf(at::ScalarType dtype);

/// Largest finite magnitude of an element; 0 for an undefined or empty tensor.
double maxAbs(const at::Tensor &tensor);
/// The same over all tensors.
double maxAbs(llvm::ArrayRef<at::Tensor> tensors);

/// Largest |a − b|. Infinite if shapes differ, if dtypes differ and neither is float64, or if an element is
/// not finite in one and differs in the other. An undefined tensor counts as zeros.
double maxAbsDifference(const at::Tensor &a, const at::Tensor &b);

/// d, of a tensor and a model whose gradients have these largest magnitudes.
double allowedGradientError(double largestOfTensor, double largestOfModel);

/// Compares a gradient; undefined means that there is none.
/// \param rounding  allowed besides d.
VerifyReport::Compared compareGradient(const at::Tensor &found, const at::Tensor &expected,
                                       double largestOfModel, double rounding = 0);
/// Compares a gradient that failed in `compareGradient` with the original's in float64. Changes `compared` if
/// it passes.
void compareWithFloat64(VerifyReport::Compared &compared, const at::Tensor &found, const at::Tensor &expected,
                        const at::Tensor &float64Reference);

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

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_GRADIENTTOLERANCE_H
