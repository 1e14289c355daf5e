//===- GradientTolerance.cpp ----------------------------------------------===//
#include "tools/driver/verify/GradientTolerance.h"
#include <ATen/ATen.h>
#include <cmath>
#include <limits>

namespace cleave {

using at::Tensor;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

static Tensor toFloat64(const Tensor &tensor) {
  return tensor.to(tensor.is_complex() ? at::kComplexDouble : at::kDouble);
}

double maxAbs(const Tensor &tensor) {
  if (!tensor.defined() || tensor.numel() == 0)
    return 0;
  return toFloat64(tensor).abs().nan_to_num(0, 0, 0).max().item<double>();
}

double maxAbs(llvm::ArrayRef<Tensor> tensors) {
  double largest = 0;
  for (const Tensor &tensor : tensors)
    largest = std::max(largest, maxAbs(tensor));
  return largest;
}

static bool hasDType(const Tensor &a, const Tensor &b) {
  return a.scalar_type() == b.scalar_type() || toFloat64(b).scalar_type() == b.scalar_type() ||
         toFloat64(a).scalar_type() == a.scalar_type();
}

double maxAbsDifference(const Tensor &a, const Tensor &b) {
  if (!a.defined() && !b.defined())
    return 0;
  if (!a.defined() || !b.defined())
    return maxAbsDifference(a.defined() ? a : at::zeros_like(b), b.defined() ? b : at::zeros_like(a));
  if (a.sizes() != b.sizes() || !hasDType(a, b))
    return kInfinity;
  if (a.numel() == 0)
    return 0;
  Tensor a64 = toFloat64(a), b64 = toFloat64(b), difference = (a64 - b64).abs();
  difference.masked_fill_(difference.isnan(), kInfinity);
  difference.masked_fill_(at::logical_or(a64 == b64, at::logical_and(a64.isnan(), b64.isnan())), 0);
  return difference.max().item<double>();
}

double epsilonOf(at::ScalarType dtype) {
  switch (dtype) {
  case at::kDouble:
  case at::kComplexDouble:
    return std::numeric_limits<double>::epsilon();
  case at::kHalf:
    return double(std::numeric_limits<c10::Half>::epsilon());
  case at::kBFloat16:
    return double(std::numeric_limits<c10::BFloat16>::epsilon());
  default:
    return std::numeric_limits<float>::epsilon();
  }
}

double allowedGradientError(double largestOfTensor, double largestOfModel) {
  return 1e-5 * largestOfTensor + 1e-6 * largestOfModel;
}

VerifyReport::Compared compareGradient(const Tensor &found, const Tensor &expected, double largestOfModel,
                                       double rounding) {
  VerifyReport::Compared compared;
  compared.shape = (expected.defined() ? expected : found).sizes().vec();
  const double largest = maxAbs(expected);
  compared.error = compared.maxAbsError = maxAbsDifference(found, expected);
  compared.allowed = allowedGradientError(largest, largestOfModel) + rounding;
  compared.maxRelError = compared.error == 0 ? 0 : compared.error / largest;
  compared.ok = compared.error <= compared.allowed;
  return compared;
}

void compareWithFloat64(VerifyReport::Compared &compared, const Tensor &found, const Tensor &expected,
                        const Tensor &float64Reference) {
  const double error = maxAbsDifference(found, float64Reference),
               own = maxAbsDifference(expected, float64Reference), allowed = 3 * own;
  // Rounding moves a gradient by less; a model that is off by more takes another branch in float64.
  const double most = (expected.defined() && expected.element_size() < 4 ? 0.25 : 0.01) * maxAbs(expected);
  if (!std::isfinite(error) || !(error <= allowed) || own > most)
    return;
  compared.error = error;
  compared.allowed = allowed;
  compared.ok = compared.isAgainstFloat64 = true;
}

/// Per element, as GradientTolerance.h says.
static Tensor allowedWeightError(const Tensor &expected, const WeightSteps &steps) {
  Tensor relative = at::zeros_like(expected);
  for (size_t t = 0; t < steps.learningRates.size() && steps.firstGradient.defined(); ++t) {
    const double rate = steps.learningRates[t];
    if (steps.isAdam)
      relative += rate * (4 * steps.gradientError / toFloat64(steps.firstGradient).abs())
                             .clamp_max(2 * std::sqrt(double(t + 1)))
                             .nan_to_num(0);
    else
      relative += rate * 4 * steps.gradientError;
  }
  return relative;
}

VerifyReport::Compared compareWeight(const Tensor &found, const Tensor &expected, const WeightSteps &steps) {
  VerifyReport::Compared compared;
  compared.shape = expected.sizes().vec();
  compared.maxAbsError = maxAbsDifference(found, expected);
  if (!std::isfinite(compared.maxAbsError) || expected.numel() == 0) {
    compared.error = compared.maxRelError = compared.maxAbsError;
    compared.ok = compared.maxAbsError == 0;
    return compared;
  }
  // Each step rounds the weight a few times.
  const double epsilon = epsilonOf(expected.scalar_type()) * 2 * double(steps.learningRates.size());
  const Tensor b = toFloat64(expected).nan_to_num(0, 0, 0),
               difference = (toFloat64(found) - toFloat64(expected)).abs().nan_to_num(0, 0, 0),
               allowed = allowedWeightError(b, steps) + b.abs() * epsilon;
  const Tensor ratio = difference / allowed.clamp_min(std::numeric_limits<double>::min());
  const int64_t worst = ratio.argmax().item<int64_t>();
  compared.error = difference.flatten()[worst].item<double>();
  compared.allowed = allowed.flatten()[worst].item<double>();
  compared.ok = compared.error <= compared.allowed;
  const double largest = b.abs().max().item<double>();
  compared.maxRelError = compared.maxAbsError == 0 ? 0 : compared.maxAbsError / largest;
  return compared;
}

} // namespace cleave
