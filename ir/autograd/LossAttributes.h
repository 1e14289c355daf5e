//===- LossAttributes.h - Attributes of a loss ------------------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_LOSSATTRIBUTES_H
#define CLEAVE_IR_AUTOGRAD_LOSSATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace cleave {

/// On a result: it is the loss whose gradients are among the results.
inline constexpr llvm::StringLiteral kLossAttr = "cleave.loss";

/// On a result, or on an operation that adds to a sum: it is a gradient.
inline constexpr llvm::StringLiteral kGradientAttr = "cleave.gradient";

/// On a result, a gradient: the name of its weight, which it is sharded as.
inline constexpr llvm::StringLiteral kShardedAsAttr = "cleave.sharded_as";

/// On a result, a float32 tensor of one element: normalizer of the micro-batch. Batch loss = sum of loss /
/// sum of normalizer, gradients likewise; without this result, plain sums.
inline constexpr llvm::StringLiteral kLossNormalizerAttr = "cleave.loss_normalizer";

/// On a function that trains, a float: the global norm to which its gradients are clipped; absent: they are
/// not clipped.
inline constexpr llvm::StringLiteral kClipNormAttr = "cleave.clip_norm";

/// On a function: name of the batch dimension. Set by accumulate-loss, which has checked that loss and
/// gradients add up over micro-batches; gradients of weights would fail a later analysis.
inline constexpr llvm::StringLiteral kSplitBatchAttr = "cleave.split_batch";

/// On a function with kSplitBatchAttr: descriptions of the operations in LossSplit::inexact, if there are
/// any.
inline constexpr llvm::StringLiteral kInexactLossAttr = "cleave.inexact_loss";

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_LOSSATTRIBUTES_H
