//===- Backward.h - What the backward pass of a call takes ------*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_BACKWARD_H
#define CLEAVE_IR_SEMANTICS_BACKWARD_H

#include "ir/semantics/GradientFlow.h"
#include "ir/semantics/OpSemantics.h"

namespace cleave {

/// A kernel of a backward pass, or several kernels that count as one.
struct GradientWork {
  OpWork work;
  /// The contraction that `work.flops` counts; see OpSemantics::gemm.
  std::optional<GemmShape> gemm;
};

/// What the backward pass of a call saves and computes in PyTorch's autograd.
struct BackwardWork {
  /// Values of the forward pass that it reads: operands and results of the call, weights included.
  llvm::SmallVector<mlir::Value> saved;
  /// Bytes saved besides these (dropout's mask, statistics of norms).
  int64_t extraBytes = 0;
  /// Gradient kernels of activations and of weights; weight gradients accumulate over micro-batches in
  /// float32.
  llvm::SmallVector<GradientWork, 2> inputs, weights;
};

/// Empty if no gradient goes through the call. Collectives are not included.
BackwardWork backwardOf(OperatorOp op, const ExampleShapes &shapes, const GradientFlow &flow);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_BACKWARD_H
