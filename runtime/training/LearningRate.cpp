//===- LearningRate.cpp ---------------------------------------------------===//
#include "runtime/training/LearningRate.h"
#include <algorithm>
#include <cmath>
#include <numbers>

namespace cleave::runtime {

double LearningRateSchedule::at(uint64_t completedSteps) const {
  if (completedSteps < warmupSteps)
    return peak * double(completedSteps) / double(warmupSteps);
  if (kind == Kind::Constant)
    return peak;
  const double length = std::max(1.0, double(totalSteps) - double(warmupSteps));
  const double done = std::min(1.0, double(completedSteps - warmupSteps) / length);
  return peak * (kind == Kind::Linear ? 1 - done : 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

} // namespace cleave::runtime
