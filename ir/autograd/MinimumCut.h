//===- MinimumCut.h - What to save, at the fewest bytes ---------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_MINIMUMCUT_H
#define CLEAVE_IR_AUTOGRAD_MINIMUMCUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <vector>

namespace cleave {

/// A value of the forward pass.
struct ForwardValue {
  /// Bytes that it takes if it is saved; nothing: it cannot be saved, as a view of another value.
  std::optional<int64_t> bytes;
  /// The backward pass may compute it again.
  bool mayRecompute = false;
  /// The backward pass reads it.
  bool isRead = false;
  /// Indices of the values that it is computed from. Inputs and weights, which are there anyway, are left
  /// out.
  llvm::SmallVector<unsigned, 2> operands = {};
};

/// By value, true if the backward pass recomputes it. All others that it needs are saved: the bytes of these
/// are the least possible, and of all such choices this one recomputes the fewest values. Each value must
/// have `bytes` or `mayRecompute`. A minimum cut, as in functorch's partitioner (He and
/// Yu, Transcending Runtime-Memory Tradeoffs in Checkpointing by being Fusion Aware, MLSys 2023).
std::vector<bool> recomputedByMinimumCut(llvm::ArrayRef<ForwardValue> values);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_MINIMUMCUT_H
