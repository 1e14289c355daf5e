//===- CallBackwards.h - What the backward pass of a call takes -*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_CALLBACKWARDS_H
#define CLEAVE_IR_AUTOGRAD_CALLBACKWARDS_H

#include "ir/semantics/GradientFlow.h"
#include "ir/semantics/OpSemantics.h"
#include <map>

namespace cleave {

/// A call of a backward pass.
struct GradientWork {
  OperatorOp call;
  OpWork work;
  /// The contraction that `work.flops` counts; see OpSemantics::gemm.
  std::optional<GemmShape> gemm;
};

/// What the backward pass of a call saves and computes.
struct BackwardWork {
  /// Values of the forward pass that it reads: operands and results of the call, weights included.
  llvm::SmallVector<mlir::Value> saved;
  /// Bytes saved besides these (dropout's mask, statistics of norms).
  int64_t extraBytes = 0;
  /// Calls for gradients of activations, and those for gradients of weights alone; weight gradients
  /// accumulate over micro-batches in float32.
  llvm::SmallVector<GradientWork, 2> inputs, weights;
};

/// Backward passes of calls, each as `differentiate` makes it, and equal calls (as those of equal layers)
/// once. For functions of one MLIR context, which must outlive the object.
class CallBackwards {
public:
  CallBackwards();
  ~CallBackwards();

  /// Empty if no gradient goes through the call. Collectives are not included. A call whose backward pass is
  /// not known saves its operands, unless it is linear, and takes as long as its forward pass.
  /// \param shapes  sizes at which `work` and `extraBytes` are counted.
  /// \param flow    of the function that has the call.
  BackwardWork of(OperatorOp op, const ExampleShapes &shapes, const GradientFlow &flow);

private:
  struct Recorded;
  /// Names, types and attributes of a call, which its backward pass depends on.
  using Key = std::vector<const void *>;
  static Key keyOf(OperatorOp op, const GradientFlow &flow);
  static Recorded record(OperatorOp op, const GradientFlow &flow);

  std::map<Key, Recorded> known;
};

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_CALLBACKWARDS_H
