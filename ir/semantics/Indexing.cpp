//===- Indexing.cpp - Lookups, gathers and factories ----------------------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"

using namespace mlir;

namespace cleave {

/// weight[v,d], indices[…] → […,d].
static std::optional<OpShardingRule> embedding(OperatorOp op, const ExampleShapes &shapes) {
  return einsumRule("vd, ... -> ...d", "v:lookup", operandShapes(op, shapes), resultShapes(op, shapes));
}

/// The operator reads and writes only as much as it makes; the table is not read as a whole.
static double nothing(OperatorOp, const ExampleShapes &) { return 0; }

/// Made whole on every rank, from sizes alone.
static std::optional<OpShardingRule> fresh(OperatorOp op, const ExampleShapes &shapes) {
  auto shape = shapes.shapeOf(op->getResult(0));
  if (!shape)
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &result = rule.results.emplace_back();
  for (int64_t size : *shape)
    result.push_back(rule.addDim(FactorKind::Broadcast, size));
  return rule;
}

/// self[…, i, …] with index tensors in some dimensions, and None or nothing in the others. Indices broadcast
/// against each other; their dimensions replace the first indexed one, or come first if a None separates
/// them.
static std::optional<OpShardingRule> index(OperatorOp op, const ExampleShapes &shapes) {
  auto operands = operandShapes(op, shapes);
  auto result = shapes.shapeOf(op->getResult(0));
  if (!result || operands.size() < 2 || !operands[0] || operands.size() - 1 > operands[0]->size())
    return std::nullopt;
  const auto &self = *operands[0];
  SmallVector<OptionalShape> indices(ArrayRef<OptionalShape>(operands).drop_front());
  SmallVector<size_t> places;
  size_t rank = 0;
  for (auto [place, shape] : llvm::enumerate(indices))
    if (shape) {
      places.push_back(place);
      rank = std::max(rank, shape->size());
    }
  // Masks select a number of elements that depends on data.
  bool hasMasks = llvm::any_of(ArrayRef<Value>(flatOperands(op)).drop_front(), [](Value value) {
    auto type = dyn_cast<ShapedType>(value.getType());
    return type && (type.getElementType().isInteger(1) || type.getElementType().isUnsignedInteger(8));
  });
  if (places.empty() || hasMasks || result->size() != self.size() - places.size() + rank)
    return std::nullopt;
  bool isAdjacent = places.back() - places.front() + 1 == places.size();
  size_t at = isAdjacent ? places.front() : 0;
  auto rule = elementwiseRule(indices, ArrayRef<int64_t>(*result).slice(at, rank));
  if (!rule)
    return std::nullopt;
  OpShardingRule::Dims from, to;
  for (auto [dim, size] : llvm::enumerate(self)) {
    bool isIndexed = llvm::is_contained(places, dim);
    from.push_back(rule->addDim(isIndexed ? FactorKind::NeedsReplication : FactorKind::PassThrough, size));
    if (!isIndexed)
      to.push_back(from.back());
  }
  to.insert(to.begin() + at, rule->results[0].begin(), rule->results[0].end());
  rule->results[0] = to;
  rule->operands.insert(rule->operands.begin(), from);
  for (size_t place : places)
    rule->indexedDims.push_back({unsigned(place + 1), 0, unsigned(place)});
  return rule;
}

/// self[…, d, …], index[n] → […, n, …].
static std::optional<OpShardingRule> indexSelect(OperatorOp op, const ExampleShapes &shapes) {
  auto self = shapes.shapeOf(op->getOperand(0)), index = shapes.shapeOf(op.getArgument("index"));
  auto dim = constantInt(op, "dim");
  if (!self || !dim || !index || index->size() != 1)
    return std::nullopt;
  auto rule = ruleWithKind(*self, {*dim}, FactorKind::NeedsReplication, op->getNumOperands(), true);
  size_t at = *dim < 0 ? *dim + self->size() : *dim;
  rule->operands[2].push_back(rule->addDim(FactorKind::PassThrough, (*index)[0]));
  rule->results[0][at] = rule->operands[2][0];
  rule->indexedDims.push_back({2, 0, unsigned(at)});
  return rule;
}

/// self and index have the same rank; dimensions of equal size are aligned, except for `dim`, which is looked
/// up.
static std::optional<OpShardingRule> gather(OperatorOp op, const ExampleShapes &shapes) {
  auto self = shapes.shapeOf(op->getOperand(0)), index = shapes.shapeOf(op.getArgument("index"));
  auto dim = constantInt(op, "dim");
  if (!self || !dim || !index || index->size() != self->size())
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &result = rule.results.emplace_back();
  size_t at = *dim < 0 ? *dim + self->size() : *dim;
  for (size_t i = 0; i < self->size(); ++i) {
    bool isTogether = i != at && (*self)[i] == (*index)[i];
    result.push_back(rule.addDim(
        isTogether || i == at ? FactorKind::PassThrough : FactorKind::NeedsReplication, (*index)[i]));
    rule.operands[0].push_back(isTogether ? result.back()
                                          : rule.addDim(FactorKind::NeedsReplication, (*self)[i]));
  }
  rule.operands[2] = result;
  return rule;
}

/// self, index and src (or a number) → like self. A dimension in which all have one size passes through, but
/// for `dim`.
static std::optional<OpShardingRule> scatter(OperatorOp op, const ExampleShapes &shapes) {
  auto self = shapes.shapeOf(op->getOperand(0)), index = shapes.shapeOf(op.getArgument("index"));
  Value source = op.getArgument("src");
  auto values = source ? shapes.shapeOf(source) : index;
  auto named = constantInt(op, "dim");
  auto dim = self && named ? dimensionAt(*named, self->size()) : std::nullopt;
  if (!dim || !index || !values || index->size() != self->size() || values->size() != self->size())
    return std::nullopt;
  OpShardingRule rule;
  OpShardingRule::Dims whole, indices, written;
  for (unsigned i = 0; i < self->size(); ++i) {
    const bool isTogether = i != *dim && (*self)[i] == (*index)[i] && (*self)[i] == (*values)[i];
    auto kind = isTogether ? FactorKind::PassThrough : FactorKind::NeedsReplication;
    whole.push_back(rule.addDim(kind, (*self)[i]));
    indices.push_back(isTogether ? whole.back() : rule.addDim(kind, (*index)[i]));
    written.push_back(isTogether ? whole.back() : rule.addDim(kind, (*values)[i]));
  }
  rule.operands.resize(op->getNumOperands());
  rule.operands[0] = whole;
  rule.operands[2] = indices;
  if (source)
    rule.operands[3] = written;
  rule.results.push_back(whole);
  return rule;
}

/// self and indices of one rank, which broadcast but for `dim`, in which the result has the indices' size.
static std::optional<OpShardingRule> takeAlong(OperatorOp op, const ExampleShapes &shapes) {
  auto self = shapes.shapeOf(op->getOperand(0)), indices = shapes.shapeOf(op->getOperand(1));
  auto named = constantInt(op, "dim");
  auto dim = self && named ? dimensionAt(*named, self->size()) : std::nullopt;
  if (!dim || !indices || indices->size() != self->size())
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &result = rule.results.emplace_back();
  for (unsigned i = 0; i < self->size(); ++i) {
    const int64_t own = (*self)[i], index = (*indices)[i];
    if (i != *dim && own != index && own != 1 && index != 1)
      return std::nullopt;
    const bool hasOwn = i != *dim && (own == index || index == 1),
               hasIndex = i == *dim || index != 1 || own == 1;
    result.push_back(rule.addDim(FactorKind::PassThrough, hasOwn ? own : index));
    rule.operands[0].push_back(hasOwn ? result.back() : rule.addDim(FactorKind::NeedsReplication, own));
    rule.operands[1].push_back(hasIndex ? result.back() : rule.addDim(FactorKind::NeedsReplication, index));
  }
  return rule;
}

/// True if an argument is absent or equals this number.
static bool isAbsentOr(OperatorOp op, StringRef argument, int64_t number) {
  return !op.getArgument(argument) || constantInt(op, argument) == number;
}

static Value endOfRange(OperatorOp op) {
  return isAbsentOr(op, "start", 0) && isAbsentOr(op, "step", 1) ? op.getArgument("end") : Value();
}

/// The number of bins of `histc`, if each bin is around one integer: from 0 to one less than there are bins.
static std::optional<int64_t> binsOfWholeNumbers(OperatorOp op) {
  auto bins = constantInt(op, "bins"), first = constantInt(op, "min"), last = constantInt(op, "max");
  return bins && first == 0 && last == *bins - 1 ? bins : std::nullopt;
}

void addIndexing(SemanticsTable &table) {
  table.add({"aten.embedding"}, {.hasStaticResultTypes = true,
                                 .readsSparsely = true,
                                 .isLookup = true,
                                 .flops = nothing,
                                 .frequencyScaling = "scale_grad_by_freq",
                                 .shardingRule = embedding});
  table.add({"aten.index"}, {.hasStaticResultTypes = true,
                             .readsSparsely = true,
                             .isLookup = true,
                             .shardingRule = index,
                             .indexMap = lookupIndexMap});
  table.add(
      {"aten.index_select"},
      {.hasStaticResultTypes = true, .readsSparsely = true, .isLookup = true, .shardingRule = indexSelect});
  table.add({"aten.gather"},
            {.hasStaticResultTypes = true, .readsSparsely = true, .isLookup = true, .shardingRule = gather});
  table.add({"aten.scatter", "aten.scatter_add"},
            {.hasStaticResultTypes = true, .readsSparsely = true, .shardingRule = scatter});
  table.add({"aten.take_along_dim"},
            {.hasStaticResultTypes = true, .readsSparsely = true, .shardingRule = takeAlong});
  table.add(
      {"aten.index_add", "aten.index_copy", "aten.index_fill", "aten.masked_scatter", "aten.embedding_bag"},
      {.hasStaticResultTypes = true, .readsSparsely = true});
  table.add(
      {"aten.index_put"},
      {.hasStaticResultTypes = true, .readsSparsely = true, .permutationRole = PermutationRole::Scatter});
  table.add({"aten.histc"}, {.hasStaticResultTypes = true,
                             .readsSparsely = true,
                             .permutationRole = PermutationRole::Histogram,
                             .integerBins = binsOfWholeNumbers});
  // The shapes of these results depend on data.
  table.add({"aten.nonzero", "aten.masked_select", "aten.bincount", "aten.unique_consecutive", "aten.where"},
            {});
  table.add({"aten.zeros", "aten.ones", "aten.full", "aten.new_zeros", "aten.new_ones", "aten.new_full"},
            {.readsNoElements = true, .sizes = "size", .shardingRule = fresh});
  // Tensors of numbers that the call lists.
  table.add({"aten.scalar_tensor", "aten.tensor"}, {.readsNoElements = true, .shardingRule = fresh});
  table.add({"aten.empty", "aten.new_empty", "aten.empty_strided"},
            {.isUninitialized = true, .readsNoElements = true, .sizes = "size", .shardingRule = fresh});
  // Indices: those of a shard start at an offset, so sizes alone do not shard them.
  table.add({"aten.arange"}, {.readsNoElements = true, .arangeEnd = endOfRange, .shardingRule = fresh});
  table.add({"aten.rand", "aten.randn"}, {.readsNoElements = true, .sizes = "size", .shardingRule = fresh});
  table.add({"aten.linspace", "aten.eye", "aten.randint"}, {});
}

} // namespace cleave
