//===- IndexMap.h - Index maps of one dimension -----------------*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_INDEXMAP_H
#define CLEAVE_IR_SEMANTICS_INDEXMAP_H

#include "ir/ExampleShapes.h"
#include "ir/OperatorDialect.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <optional>

namespace cleave {

/// Index map of an operator that takes every index of dimension `dim` of its results from one of its
/// operands, such as cat, split, slice and flip. All other dimensions pass through in order. Operands are
/// those of `flatOperands`. A result that is a list has one entry per item.
struct IndexMap {
  struct Source {
    unsigned operand;
    int64_t position;
    bool operator==(const Source &) const = default;
  };
  /// The dimension, which is the same in operands and results.
  unsigned dim;
  /// By result, or item of the one result, and by index in `dim`: where it comes from.
  llvm::SmallVector<std::vector<Source>> results;
};

/// Index maps along an operator's argument `dim` (`dims` for flip and roll).
std::optional<IndexMap> concatIndexMap(OperatorOp op, const ExampleShapes &shapes);
std::optional<IndexMap> splitIndexMap(OperatorOp op, const ExampleShapes &shapes);
std::optional<IndexMap> sliceIndexMap(OperatorOp op, const ExampleShapes &shapes);
std::optional<IndexMap> interleaveIndexMap(OperatorOp op, const ExampleShapes &shapes);
std::optional<IndexMap> flipIndexMap(OperatorOp op, const ExampleShapes &shapes);
/// Index map of one dimension indexed by a constant tensor of the model.
std::optional<IndexMap> lookupIndexMap(OperatorOp op, const ExampleShapes &shapes);
std::optional<IndexMap> rollIndexMap(OperatorOp op, const ExampleShapes &shapes);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_INDEXMAP_H
