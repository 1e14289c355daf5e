//===- AccumulateGradients.h - Sums over micro-batches ----------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_ACCUMULATEGRADIENTS_H
#define CLEAVE_IR_AUTOGRAD_ACCUMULATEGRADIENTS_H

#include "ir/Cleave.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace cleave {

/// Names of the sums of the loss and of its normalizer.
inline constexpr llvm::StringLiteral kLossSum = "loss", kNormalizerSum = "loss_normalizer";

/// `name` of a sum or of a state that training adds, with `train.` in front if the model has a state of this
/// name.
std::string trainingStateName(mlir::func::FuncOp function, llvm::StringRef name);

/// Replaces gradients among the results of a function that `differentiate` made by sums over micro-batches,
/// to which each term is added where it is made (`cleave.accumulate "grad.fc.weight"`, with kGradientAttr). A
/// weight with several uses has several terms. Loss and normalizer are summed, too; the loss alone stays a
/// result.
///
/// Fails with a diagnostic if no result is marked as the loss, no gradient is there, or a weight is complex.
mlir::LogicalResult accumulateGradients(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_ACCUMULATEGRADIENTS_H
