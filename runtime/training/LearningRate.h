//===- LearningRate.h - The learning rate of each step ----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_TRAINING_LEARNINGRATE_H
#define CLEAVE_RUNTIME_TRAINING_LEARNINGRATE_H

#include <cstdint>

namespace cleave::runtime {

/// The schedules of transformers' `get_scheduler` (`constant_with_warmup`, `linear`, `cosine`): the rate
/// rises from 0 to `peak` during `warmup` steps; then it stays, or falls to 0 at step `steps`, along a line
/// or half a cosine.
struct LearningRate {
  enum class Shape { Constant, Linear, Cosine };
  Shape shape = Shape::Constant;
  double peak = 1e-3;
  uint64_t warmup = 0;
  /// Of the whole training; Constant does not need it.
  uint64_t steps = 0;

  /// \param step  number of steps that were taken before.
  double at(uint64_t step) const;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_LEARNINGRATE_H
