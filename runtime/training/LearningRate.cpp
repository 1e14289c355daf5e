//===- LearningRate.cpp ---------------------------------------------------===//
#include "runtime/training/LearningRate.h"
#include <algorithm>
#include <cmath>
#include <numbers>

namespace cleave::runtime {

double LearningRate::at(uint64_t step) const {
  if (step < warmup)
    return peak * double(step) / double(warmup);
  if (shape == Shape::Constant)
    return peak;
  const double length = std::max(1.0, double(steps) - double(warmup));
  const double done = std::min(1.0, double(step - warmup) / length);
  return peak * (shape == Shape::Linear ? 1 - done : 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

} // namespace cleave::runtime
