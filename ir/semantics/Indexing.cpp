//===- Indexing.cpp - Lookups, gathers, and tensors out of nothing --------===//
#include "ir/semantics/OpSemantics.h"
#include "ir/semantics/Shapes.h"

using namespace mlir;

namespace cleave {

/// weight[v,d], indices[…] → […,d].
static std::optional<DimensionRule> embedding(OperatorOp op, const TracedShapes &shapes) {
  return einsumRule("vd, ... -> ...d", "v:lookup", operandShapes(op, shapes), resultShapes(op, shapes));
}

/// Reads and writes what it makes; the table is not read through.
static double nothing(OperatorOp, const TracedShapes &) { return 0; }

/// Made whole on every rank from sizes alone.
static std::optional<DimensionRule> fresh(OperatorOp op, const TracedShapes &shapes) {
  auto shape = shapes.shapeOf(op->getResult(0));
  if (!shape)
    return std::nullopt;
  DimensionRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &result = rule.results.emplace_back();
  for (int64_t size : *shape)
    result.push_back(rule.addFactor(FactorKind::Broadcast, size));
  return rule;
}

void addIndexing(SemanticsTable &table) {
  table.add({"aten.embedding"}, {.hasTypesOfOperands = true, .readsSparsely = true, .flops = nothing, .dimensions = embedding});
  table.add({"aten.index", "aten.index_select", "aten.gather", "aten.take_along_dim", "aten.scatter",
             "aten.scatter_add", "aten.index_put", "aten.index_add", "aten.index_copy", "aten.index_fill",
             "aten.masked_scatter", "aten.bucketize", "aten.searchsorted", "aten.embedding_bag", "aten.histc"},
            {.hasTypesOfOperands = true, .readsSparsely = true});
  // The shape of what these give is in the data.
  table.add({"aten.nonzero", "aten.masked_select", "aten.bincount", "aten.unique_consecutive", "aten.where"}, {});
  table.add({"aten.zeros", "aten.ones", "aten.full", "aten.new_zeros", "aten.new_ones", "aten.new_full", "aten.scalar_tensor", "aten.tensor"},
            {.dimensions = fresh});
  table.add({"aten.empty", "aten.new_empty", "aten.empty_strided"}, {.isUninitialized = true, .dimensions = fresh});
  // Positions: their local part starts at an offset, so they do not split by sizes alone.
  table.add({"aten.arange", "aten.linspace", "aten.eye", "aten.rand", "aten.randn", "aten.randint"}, {});
}

} // namespace cleave
