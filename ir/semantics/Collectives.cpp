//===- Collectives.cpp - Operators between the ranks of a group -----------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"

using namespace mlir;

namespace cleave {

/// Every dimension passes through except for those that the ranks exchange, which arguments name.
static std::optional<OpShardingRule> exchanges(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  if (!from || !to || from->size() != to->size())
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &result = rule.results.emplace_back();
  for (auto [dim, size] : llvm::enumerate(*from)) {
    bool isNamed =
        llvm::any_of(ArrayRef<StringRef>{"dim", "from", "to"}, [&, d = int64_t(dim)](StringRef name) {
          return op.getArgument(name) && constantInt(op, name) == d;
        });
    rule.operands[0].push_back(
        rule.addDim(isNamed ? FactorKind::NeedsReplication : FactorKind::PassThrough, size));
    result.push_back(isNamed ? rule.addDim(FactorKind::NeedsReplication, (*to)[dim])
                             : rule.operands[0].back());
  }
  return rule;
}

void addCollectives(SemanticsTable &table) {
  auto add = [&](StringRef name, std::optional<CollectiveKind> kind, llvm::StringLiteral ranges = "") {
    table.add(
        {name},
        {.hasStaticResultTypes = true, .ranges = ranges, .collective = kind, .shardingRule = exchanges});
  };
  add("spmd.all_reduce", CollectiveKind::AllReduce);
  add("spmd.all_gather", CollectiveKind::AllGather);
  add("spmd.reduce_scatter", CollectiveKind::ReduceScatter, "ranges");
  add("spmd.all_to_all", CollectiveKind::AllToAll, "ranges");
  add("spmd.broadcast", CollectiveKind::Broadcast);
  add("spmd.shard", std::nullopt, "ranges");
  table.set(&OpSemantics::linearity, Linearity::All, {"spmd.shard"});
}

} // namespace cleave
