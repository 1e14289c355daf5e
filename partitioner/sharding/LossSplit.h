//===- LossSplit.h - The loss of a batch, from those of its parts -*- C++ -*-=//
#ifndef CLEAVE_PARTITIONER_SHARDING_LOSSSPLIT_H
#define CLEAVE_PARTITIONER_SHARDING_LOSSSPLIT_H

#include "ir/semantics/OpSemantics.h"
#include "partitioner/sharding/BatchAnalysis.h"
#include <variant>

namespace cleave {

/// How the loss of a batch follows from the losses of its parts.
struct LossSplit {
  /// Sum: their sum. Mean: their mean, weighted by the samples of each part. WeightedMean: weighted by the
  /// normalizer of `weightedMeans` in each part.
  Reduction reduction = Reduction::Sum;
  /// Losses with OpSemantics::meanNormalizer, and quotients of two sums, whose normalizer is the divisor. All
  /// have the same normalizer. Empty unless `reduction` is WeightedMean.
  llvm::SmallVector<mlir::Operation *, 1> weightedMeans;
  /// Operations that are not linear in sums and means over the batch (load-balancing losses of routers).
  /// Terms that depend on them are computed per part and averaged like the others.
  llvm::SmallVector<BatchObstacle, 0> inexact;
};

/// Follows dimension `batch` from the inputs to `loss` and to states that are written. Every value before the
/// reduction must consist of the rows of one part (findBatchObstacle); after it, the loss must be linear in
/// sums and means over the batch. Parts may draw different random numbers. Other results are ignored. Returns
/// the first obstacle, if any. Needs inferred types and folded sizes.
std::variant<LossSplit, BatchObstacle> splitLoss(mlir::func::FuncOp function, llvm::StringRef batch,
                                                 mlir::Value loss);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_LOSSSPLIT_H
