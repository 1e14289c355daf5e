//===- Backward.h - What the backward pass of a call takes ------*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_BACKWARD_H
#define CLEAVE_IR_SEMANTICS_BACKWARD_H

#include "ir/semantics/GradientFlow.h"
#include "ir/semantics/OpSemantics.h"

namespace cleave {

/// A kernel of a backward pass, or several that are one as far as costs go.
struct GradientWork {
  OpWork work;
  /// The products that `work.flops` are, as OpSemantics::product counts them.
  std::optional<GemmShape> product;
};

/// What the backward pass of a call keeps and does, as PyTorch's autograd does it.
struct BackwardWork {
  /// Values of the forward pass that it reads: operands and results of the call, weights among them.
  llvm::SmallVector<mlir::Value> saved;
  /// What it keeps beside these (dropout's mask, statistics of norms), bytes.
  int64_t extraBytes = 0;
  /// For gradients of what is no weight, and of weights, whose gradients of many micro-batches are summed in
  /// float32.
  llvm::SmallVector<GradientWork, 2> inputs, weights;
};

/// Nothing where no gradient goes through the call. What ranks do together is not part of it.
BackwardWork backwardOf(OperatorOp op, const ExampleShapes &shapes, const GradientFlow &flow);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_BACKWARD_H
