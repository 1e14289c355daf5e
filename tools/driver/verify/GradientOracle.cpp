//===- GradientOracle.cpp -------------------------------------------------===//
#include "tools/driver/verify/GradientOracle.h"
#include <ATen/ATen.h>
#include <cmath>
#include <limits>

namespace cleave {

using at::Tensor;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

static Tensor wide(const Tensor &tensor) {
  return tensor.to(tensor.is_complex() ? at::kComplexDouble : at::kDouble);
}

double largestOf(const Tensor &tensor) {
  if (!tensor.defined() || tensor.numel() == 0)
    return 0;
  return wide(tensor).abs().nan_to_num(0, 0, 0).max().item<double>();
}

double largestOf(llvm::ArrayRef<Tensor> tensors) {
  double largest = 0;
  for (const Tensor &tensor : tensors)
    largest = std::max(largest, largestOf(tensor));
  return largest;
}

static bool hasDType(const Tensor &a, const Tensor &b) {
  return a.scalar_type() == b.scalar_type() || wide(b).scalar_type() == b.scalar_type() ||
         wide(a).scalar_type() == a.scalar_type();
}

double largestDifference(const Tensor &a, const Tensor &b) {
  if (!a.defined() && !b.defined())
    return 0;
  if (!a.defined() || !b.defined())
    return largestDifference(a.defined() ? a : at::zeros_like(b), b.defined() ? b : at::zeros_like(a));
  if (a.sizes() != b.sizes() || !hasDType(a, b))
    return kInfinity;
  if (a.numel() == 0)
    return 0;
  Tensor wideA = wide(a), wideB = wide(b), difference = (wideA - wideB).abs();
  difference.masked_fill_(difference.isnan(), kInfinity);
  difference.masked_fill_(at::logical_or(wideA == wideB, at::logical_and(wideA.isnan(), wideB.isnan())), 0);
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
  const double largest = largestOf(expected);
  compared.error = compared.maxAbsError = largestDifference(found, expected);
  compared.allowed = allowedGradientError(largest, largestOfModel) + rounding;
  compared.maxRelError = compared.error == 0 ? 0 : compared.error / largest;
  compared.ok = compared.error <= compared.allowed;
  return compared;
}

void compareWithFloat64(VerifyReport::Compared &compared, const Tensor &found, const Tensor &expected,
                        const Tensor &wide) {
  const double error = largestDifference(found, wide), allowed = 3 * largestDifference(expected, wide);
  if (!std::isfinite(error) || !(error <= allowed))
    return;
  compared.error = error;
  compared.allowed = allowed;
  compared.ok = compared.isAgainstFloat64 = true;
}

/// Per element, as GradientOracle.h says.
static Tensor allowedWeightError(const Tensor &expected, const WeightSteps &steps) {
  Tensor relative = at::zeros_like(expected);
  for (size_t t = 0; t < steps.learningRates.size() && steps.firstGradient.defined(); ++t) {
    const double rate = steps.learningRates[t];
    if (steps.isAdam)
      relative += rate * (4 * steps.gradientError / wide(steps.firstGradient).abs())
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
  compared.maxAbsError = largestDifference(found, expected);
  if (!std::isfinite(compared.maxAbsError) || expected.numel() == 0) {
    compared.error = compared.maxRelError = compared.maxAbsError;
    compared.ok = compared.maxAbsError == 0;
    return compared;
  }
  // Each step rounds the weight a few times.
  const double epsilon = epsilonOf(expected.scalar_type()) * 2 * double(steps.learningRates.size());
  const Tensor b = wide(expected).nan_to_num(0, 0, 0),
               difference = (wide(found) - wide(expected)).abs().nan_to_num(0, 0, 0),
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
