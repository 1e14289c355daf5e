//===- IndexMap.h - Operators that join, cut or reorder a dimension -*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_INDEXMAP_H
#define CLEAVE_IR_SEMANTICS_INDEXMAP_H

#include "ir/ExampleShapes.h"
#include "ir/OperatorDialect.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <optional>

namespace cleave {

/// Of an operator that takes every position of dimension `dim` of its results from one of its operands, as
/// cat, split, slice and flip do; all other dimensions pass as they are, in order. Operands count as
/// `flatOperands` gives them. A result that is a list has one entry for each of its items.
struct IndexMap {
  struct Source {
    unsigned operand;
    int64_t position;
    bool operator==(const Source &) const = default;
  };
  /// The same in operands and results.
  unsigned dim;
  /// For each result, or item of the one result, for each position of `dim`.
  llvm::SmallVector<std::vector<Source>> results;
};

/// Rules by what an operator does along its argument `dim` (`dims` for the last two).
std::optional<IndexMap> concatIndexMap(OperatorOp op, const ExampleShapes &shapes);
std::optional<IndexMap> splitIndexMap(OperatorOp op, const ExampleShapes &shapes);
std::optional<IndexMap> sliceIndexMap(OperatorOp op, const ExampleShapes &shapes);
std::optional<IndexMap> interleaveIndexMap(OperatorOp op, const ExampleShapes &shapes);
std::optional<IndexMap> flipIndexMap(OperatorOp op, const ExampleShapes &shapes);
/// One dimension indexed by a tensor of numbers that the model holds.
std::optional<IndexMap> lookupIndexMap(OperatorOp op, const ExampleShapes &shapes);
std::optional<IndexMap> rollIndexMap(OperatorOp op, const ExampleShapes &shapes);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_INDEXMAP_H
