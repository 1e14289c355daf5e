//===- LossSplit.h - The loss of a batch, from those of its parts -*- C++ -*-=//
#ifndef CLEAVE_PARTITIONER_SHARDING_LOSSSPLIT_H
#define CLEAVE_PARTITIONER_SHARDING_LOSSSPLIT_H

#include "ir/semantics/OpSemantics.h"
#include "partitioner/sharding/BatchAnalysis.h"
#include <variant>

namespace cleave {

/// Of a function with kSplitBatchAttr: descriptions of the operations in LossSplit::inexact, if there are
/// any.
inline constexpr llvm::StringLiteral kInexactLossAttr = "cleave.inexact_loss";

/// How the loss of a batch follows from the losses of its parts.
struct LossSplit {
  /// Sum: their sum. Mean: their mean, weighted by the samples of each part. WeightedMean: weighted by the
  /// divisor of `quotients` in each part.
  Reduction reduction = Reduction::Sum;
  /// The operations whose divisor weighs the parts, the same one in all: losses with OpSemantics::meanWeight,
  /// or quotients of two sums. Empty unless `reduction` is WeightedMean.
  llvm::SmallVector<mlir::Operation *, 1> quotients;
  /// Operations that give other values on parts, so that terms of the loss that depend on them are those of
  /// the parts, weighted like the others: losses of routers, which multiply means over the batch.
  llvm::SmallVector<BatchObstacle, 0> inexact;
};

/// Follows dimension `batch` to the loss, a result of `function`, and to what the function writes to states.
/// Each value on the way must be made of the rows of a part alone, as in findBatchObstacle; but the loss may
/// be linear in sums and means over the batch. Random numbers may be others for each part. What leads to
/// other results is not looked at. Returns the first operation that prevents the split, if there is one.
/// Types must have been inferred and sizes folded.
std::variant<LossSplit, BatchObstacle> splitLoss(mlir::func::FuncOp function, llvm::StringRef batch,
                                                 mlir::Value loss);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_LOSSSPLIT_H
