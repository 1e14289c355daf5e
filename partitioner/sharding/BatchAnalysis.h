//===- BatchAnalysis.h - Can the batch be split? ----------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SHARDING_BATCHANALYSIS_H
#define CLEAVE_PARTITIONER_SHARDING_BATCHANALYSIS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace cleave {

/// The operation because of which a function cannot run on parts of its batch.
struct BatchObstacle {
  mlir::Operation *op;
  /// Text after the operation's name: `adds over dimension batch`.
  std::string reason;

  /// `aten.sum`, or `the model`.
  std::string operationName() const;
  /// `aten.sum at h.3 adds over dimension batch`.
  std::string describe() const;
};

/// Nothing if `function` can be split along its batch: run on consecutive parts of dimension `name` of its
/// inputs, it gives consecutive parts of its outputs. Otherwise the first operation that prevents it. Every
/// value must hold the dimension as the major factor of one of its own dimensions, and every operator on it
/// must pass that factor through (see OpShardingRule). Types must have been inferred and sizes folded
/// (infer-types, fold-sizes).
///
/// An operator without a rule is an obstacle, as is control flow that uses the dimension. A function with
/// kSplitBatchAttr has none in that dimension.
std::optional<BatchObstacle> findBatchObstacle(mlir::func::FuncOp function, llvm::StringRef name);

/// The values for which running parts of the batch and concatenating does not give what the whole batch
/// gives, such as rows that are sorted by expert. Empty if `function` has an obstacle (findBatchObstacle).
llvm::DenseSet<mlir::Value> valuesThatDependOnSplit(mlir::func::FuncOp function, llvm::StringRef name);

/// The dimension of a tensor type that holds dimension `name` as its major factor; nothing if there is none,
/// or if the type depends on `name` in another way.
std::optional<unsigned> dimensionHolding(mlir::Type type, llvm::StringRef name);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_BATCHANALYSIS_H
