//===- StepInputs.h - Inputs that a training step adds ----------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_STEPINPUTS_H
#define CLEAVE_IR_AUTOGRAD_STEPINPUTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Roles of the inputs that a training step has besides those of the model; the same names as in
/// codegen/plan/TrainingStep.h. The caller of the plan gives them for each step (runtime::Trainer).
///   learning_rate  float32 scalar
///   step           float32 scalar: number of the step, from 1
///   random_key     int64 scalar: key of its random numbers (random/RandomOperators.h)
///   sample_index   int64[batch]: 0, 1, …, the index of each sample in the batch
inline constexpr llvm::StringLiteral kLearningRateRole = "learning_rate", kStepRole = "step",
                                     kRandomKeyRole = "random_key", kSampleIndexRole = "sample_index";

/// Adds an input of one of these roles, the last one. Its name is that of its role, with `train.` in front if
/// the model has such an input.
mlir::Value addStepInput(mlir::func::FuncOp function, llvm::StringRef role, mlir::RankedTensorType type);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_STEPINPUTS_H
