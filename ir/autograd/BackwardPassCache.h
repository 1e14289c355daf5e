//===- BackwardPassCache.h - Backward passes of single calls ----*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_BACKWARDPASSCACHE_H
#define CLEAVE_IR_AUTOGRAD_BACKWARDPASSCACHE_H

#include "ir/semantics/GradientFlow.h"
#include "ir/semantics/OpSemantics.h"
#include <map>

namespace cleave {

/// An operator of the backward pass, and its work.
struct GradientWork {
  /// Owned by the cache.
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
  /// Bytes that are needed while its operators run, besides saved values and gradients, as far as known.
  int64_t workspaceBytes = 0;
  /// Operators that compute gradients of activations, and those that only gradients of weights need. The
  /// latter's bytes include the accumulation over micro-batches in float32.
  llvm::SmallVector<GradientWork, 2> inputGradients, weightGradients;
};

/// Backward passes of calls, each derived as by `differentiate`, once for equal calls, such as those of
/// repeated layers. Not thread-safe. The MLIR context, one for all functions, must outlive the cache.
class BackwardPassCache {
public:
  BackwardPassCache();
  ~BackwardPassCache();

  /// Empty if no gradient flows through the call, and for views, scalar operators and collectives. Where the
  /// backward pass cannot be derived, the operands count as saved, unless the call is linear, and the work is
  /// that of the forward pass; no diagnostic is emitted. `extraBytes` is OpSemantics::savedBytes where the
  /// operator has that, since GPU kernels may save less than the recorded operators.
  /// \param shapes  sizes at which work and bytes are counted.
  /// \param flow    of the function that has the call.
  BackwardWork backwardPassOf(OperatorOp op, const ExampleShapes &shapes, const GradientFlow &flow);

private:
  struct Recorded;
  /// Operator, operand and result types, constants, and which values require grad: calls with equal keys have
  /// equal backward passes. Pointers to what the MLIR context keeps once, or small integers.
  using Key = std::vector<const void *>;
  static Key keyOf(OperatorOp op, const GradientFlow &flow);
  static Recorded record(OperatorOp op, const GradientFlow &flow);

  std::map<Key, Recorded> known;
};

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_BACKWARDPASSCACHE_H
