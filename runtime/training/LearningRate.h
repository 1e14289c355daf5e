//===- LearningRate.h - The learning rate of each step ----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_TRAINING_LEARNINGRATE_H
#define CLEAVE_RUNTIME_TRAINING_LEARNINGRATE_H

#include <cstdint>

namespace cleave::runtime {

/// Learning-rate schedules of transformers' `get_scheduler`: linear warm-up from 0 to `peak` over
/// `warmupSteps`, then constant, or linear or cosine decay to 0 at `totalSteps`. With warm-up, the first step
/// has rate 0. Where `totalSteps` is not above `warmupSteps`, the rate falls to 0 one step after the warm-up.
struct LearningRateSchedule {
  enum class Kind { Constant, Linear, Cosine };
  Kind kind = Kind::Constant;
  double peak = 1e-3;
  uint64_t warmupSteps = 0;
  /// Of the whole training; Constant does not need it.
  uint64_t totalSteps = 0;

  /// Learning rate of the next step when `completedSteps` are done.
  double at(uint64_t completedSteps) const;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_LEARNINGRATE_H
