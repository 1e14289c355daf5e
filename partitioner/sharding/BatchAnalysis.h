//===- BatchAnalysis.h - May the batch be split? ----------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SHARDING_BATCHANALYSIS_H
#define CLEAVE_PARTITIONER_SHARDING_BATCHANALYSIS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace cleave {

/// What keeps a function from running on parts of its batch.
struct BatchObstacle {
  mlir::Operation *op;
  /// After the operation's name: `adds over dimension batch`.
  std::string reason;

  /// `aten.sum`, or `the model`.
  std::string operationName() const;
  /// `aten.sum at h.3 adds over dimension batch`.
  std::string describe() const;
};

/// Nothing when `function`, run on consecutive parts of dimension `name` of its inputs, gives consecutive
/// parts of its outputs; else the first operation that prevents it. Every value must hold the dimension as
/// the major factor of one of its own, and every operator on it must pass that factor (see DimensionRule).
/// Types must have been inferred and sizes folded (infer-types, fold-sizes).
///
/// An operator without a rule counts as an obstacle, as does control flow that touches the dimension.
std::optional<BatchObstacle> findBatchObstacle(mlir::func::FuncOp function, llvm::StringRef name);

/// Which dimension of a tensor type holds dimension `name` as its major factor; nothing where none does, or
/// where the type depends on `name` in another way.
std::optional<unsigned> dimensionHolding(mlir::Type type, llvm::StringRef name);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_BATCHANALYSIS_H
