//===- LossResult.h - Which result is the loss ------------------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_LOSSRESULT_H
#define CLEAVE_IR_AUTOGRAD_LOSSRESULT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>

namespace cleave {

/// Of a function: the dimension that micro-batches split. Its loss, and the gradients of that, are terms of
/// sums over micro-batches. accumulate-loss has made sure that they are, before the function had gradients.
inline constexpr llvm::StringLiteral kSplitBatchAttr = "cleave.split_batch";

/// Of a result of such a function, a float32 of one element: the weight of a micro-batch. The loss of the
/// batch and its gradients are those sums, divided by the sum of the weights; without such a result, the
/// sums.
inline constexpr llvm::StringLiteral kLossWeightAttr = "cleave.loss_weight";

/// The result that is the loss: the one called `name`, or whose name ends with a dot and `name`; without a
/// name the only result, or else `loss`. Nothing, with a diagnostic, if none is, or several may be.
std::optional<unsigned> indexOfLoss(mlir::func::FuncOp function, llvm::StringRef name);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_LOSSRESULT_H
