//===- ShapeOps.cpp - Views, copies and concatenations --------------------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;

namespace cleave {

/// Splits and merges of row-major dimensions.
static std::optional<OpShardingRule> regroups(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  auto rule = from && to ? viewRule(*from, *to) : std::nullopt;
  if (!rule)
    return std::nullopt;
  rule->operands.resize(op->getNumOperands());
  // The operand whose shape view_as and reshape_as take.
  if (op->getNumOperands() > 1 && shapes.shapeOf(op->getOperand(1)))
    rule->operands[1] = rule->results[0];
  return rule;
}

/// A shard of size 1 would be dropped where a dimension of size 1 may be dropped.
static std::optional<OpShardingRule> squeezes(OperatorOp op, const ExampleShapes &shapes) {
  auto rule = regroups(op, shapes);
  auto from = shapes.shapeOf(op->getOperand(0));
  auto dims = constantInts(op, "dim");
  if (auto dim = constantInt(op, "dim"))
    dims = {*dim};
  for (unsigned d = 0; rule && d < rule->operands[0].size(); ++d)
    if (!dims || llvm::any_of(*dims, [&](int64_t dim) { return dimensionAt(dim, from->size()) == d; }))
      for (unsigned factor : rule->operands[0][d])
        rule->factors[factor].kind = FactorKind::NeedsReplication;
  return rule;
}

static std::optional<OpShardingRule> permuted(OperatorOp op, const ExampleShapes &shapes,
                                              ArrayRef<int64_t> order) {
  auto from = shapes.shapeOf(op->getOperand(0));
  if (!from || order.size() != from->size())
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  for (int64_t size : *from)
    rule.operands[0].push_back(rule.addDim(FactorKind::PassThrough, size));
  auto &result = rule.results.emplace_back();
  for (int64_t dim : order)
    if (auto source = dimensionAt(dim, from->size()))
      result.push_back(rule.operands[0][*source]);
    else
      return std::nullopt;
  return rule;
}

static std::optional<OpShardingRule> permutes(OperatorOp op, const ExampleShapes &shapes) {
  auto order = constantInts(op, "dims");
  return order ? permuted(op, shapes, *order) : std::nullopt;
}

static std::optional<OpShardingRule> transposes(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0));
  if (!from)
    return std::nullopt;
  int64_t rank = from->size();
  bool isMatrix = op->getNumOperands() == 1;
  bool isAxes = op.getBaseName() == "aten.swapaxes";
  auto first = isMatrix ? -2 : constantInt(op, isAxes ? "axis0" : "dim0");
  auto second = isMatrix ? -1 : constantInt(op, isAxes ? "axis1" : "dim1");
  auto left = first ? dimensionAt(*first, rank) : std::nullopt;
  auto right = second ? dimensionAt(*second, rank) : std::nullopt;
  if (!left || !right || rank < 2)
    return std::nullopt;
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(order[*left], order[*right]);
  return permuted(op, shapes, order);
}

/// movedim: dimension `source` (or each of several) becomes `destination`; the others keep their order.
static std::optional<OpShardingRule> moves(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0));
  auto namedIn = [&](StringRef argument) {
    auto number = constantInt(op, argument);
    return number ? std::optional(SmallVector<int64_t>{*number}) : constantInts(op, argument);
  };
  auto sources = namedIn("source"), destinations = namedIn("destination");
  if (!from || !sources || !destinations || sources->size() != destinations->size())
    return std::nullopt;
  constexpr int64_t kFree = -1;
  SmallVector<int64_t> order(from->size(), kFree);
  llvm::SmallSet<unsigned, 4> moved;
  for (auto [source, destination] : llvm::zip(*sources, *destinations)) {
    auto dim = dimensionAt(source, from->size()), place = dimensionAt(destination, from->size());
    if (!dim || !place || !moved.insert(*dim).second || order[*place] != kFree)
      return std::nullopt;
    order[*place] = *dim;
  }
  unsigned next = 0;
  for (int64_t &dim : order) {
    while (moved.contains(next))
      ++next;
    dim = dim == kFree ? next++ : dim;
  }
  return permuted(op, shapes, order);
}

/// numpy's transpose: all dimensions in reverse order.
static std::optional<OpShardingRule> reverses(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0));
  if (!from)
    return std::nullopt;
  return permuted(op, shapes, llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, from->size()))));
}

/// Operators that keep the rank and all dimensions of `shape` except for those in `cut`. All tensor operands
/// have these dimensions.
static std::optional<OpShardingRule> cutsDims(OperatorOp op, const ExampleShapes &shapes,
                                              ArrayRef<int64_t> shape, ArrayRef<int64_t> cut) {
  OpShardingRule rule;
  OpShardingRule::Dims result;
  for (int64_t size : shape)
    result.push_back(rule.addDim(FactorKind::PassThrough, size));
  if (llvm::any_of(cut, [&](int64_t dim) { return !dimensionAt(dim, shape.size()); }))
    return std::nullopt;
  // A cut dimension is a different factor in each tensor.
  auto dimsOf = [&](ArrayRef<int64_t> sizes) {
    OpShardingRule::Dims dims = result;
    for (int64_t dim : cut) {
      unsigned counted = *dimensionAt(dim, sizes.size());
      dims[counted] = rule.addDim(FactorKind::NeedsReplication, sizes[counted]);
    }
    return dims;
  };
  rule.results.push_back(dimsOf(shape));
  for (const OptionalShape &from : operandShapes(op, shapes)) {
    if (from && from->size() != shape.size())
      return std::nullopt;
    rule.operands.push_back(from ? dimsOf(*from) : OpShardingRule::Dims());
  }
  return rule;
}

/// The dimension in argument `dim`, or those in `dims`: it is cut, concatenated, or reordered.
static std::optional<OpShardingRule> cutsAlong(OperatorOp op, const ExampleShapes &shapes) {
  auto to = shapes.shapeOf(op->getResult(0));
  auto dims = constantInts(op, "dims");
  if (auto dim = constantInt(op, "dim"))
    dims = SmallVector<int64_t>{*dim};
  // Without dimensions, roll works on the flattened tensor.
  return to && dims && !dims->empty() ? cutsDims(op, shapes, *to, *dims) : std::nullopt;
}

/// Each index of `dim` becomes as many as `repeats`, a number or a tensor, says. What is repeated passes all
/// other dimensions.
static std::optional<OpShardingRule> interleaves(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  auto named = constantInt(op, "dim");
  auto dim = from && named ? dimensionAt(*named, from->size()) : std::nullopt;
  if (!dim || !to || to->size() != from->size())
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &result = rule.results.emplace_back();
  for (unsigned i = 0; i < from->size(); ++i) {
    auto kind = i == *dim ? FactorKind::NeedsReplication : FactorKind::PassThrough;
    rule.operands[0].push_back(rule.addDim(kind, (*from)[i]));
    result.push_back(i == *dim ? rule.addDim(kind, (*to)[i]) : rule.operands[0].back());
  }
  return rule;
}

/// A list of pieces along `dim`. Pieces have all other dimensions of the whole.
static std::optional<OpShardingRule> splitsAlong(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0));
  auto dim = constantInt(op, "dim");
  return from && dim ? cutsDims(op, shapes, *from, {*dim}) : std::nullopt;
}

/// Operators that remove dimension `dim`, by taking one index or each.
static std::optional<OpShardingRule> drops(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0));
  auto dim = constantInt(op, "dim");
  if (!from || !dim)
    return std::nullopt;
  auto rule = cutsDims(op, shapes, *from, {*dim});
  if (rule)
    rule->results[0].erase(rule->results[0].begin() + *dimensionAt(*dim, from->size()));
  return rule;
}

/// A new dimension at `dim`, with one index per item.
static std::optional<OpShardingRule> stacks(OperatorOp op, const ExampleShapes &shapes) {
  auto to = shapes.shapeOf(op->getResult(0));
  auto dim = constantInt(op, "dim");
  auto added = to && dim ? dimensionAt(*dim, to->size()) : std::nullopt;
  if (!added)
    return std::nullopt;
  OpShardingRule rule;
  auto &result = rule.results.emplace_back();
  for (int64_t size : *to)
    result.push_back(rule.addDim(FactorKind::PassThrough, size));
  OpShardingRule::Dims item = result;
  item.erase(item.begin() + *added);
  rule.factors[result[*added][0]].kind = FactorKind::NeedsReplication;
  for (const OptionalShape &from : operandShapes(op, shapes))
    rule.operands.push_back(from ? item : OpShardingRule::Dims());
  return rule;
}

/// The last dimensions, with two numbers each in `pad`, are needed whole.
static std::optional<OpShardingRule> pads(OperatorOp op, const ExampleShapes &shapes) {
  auto to = shapes.shapeOf(op->getResult(0));
  auto pad = constantInts(op, "pad");
  if (!pad)
    pad = constantInts(op, "padding");
  if (!to || !pad)
    return std::nullopt;
  SmallVector<int64_t> padded;
  for (int64_t i = 0; i < int64_t(pad->size() / 2); ++i)
    if ((*pad)[2 * i] || (*pad)[2 * i + 1])
      padded.push_back(-1 - i);
  return cutsDims(op, shapes, *to, padded);
}

/// Triangles of the last two dimensions.
static std::optional<OpShardingRule> triangles(OperatorOp op, const ExampleShapes &shapes) {
  auto to = shapes.shapeOf(op->getResult(0));
  return to && to->size() >= 2 ? cutsDims(op, shapes, *to, {-2, -1}) : std::nullopt;
}

/// Each dimension is repeated as a whole: the copies are an outer factor of their own.
static std::optional<OpShardingRule> repeats(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  if (!from || !to || to->size() < from->size())
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &result = rule.results.emplace_back();
  size_t added = to->size() - from->size();
  for (auto [i, size] : llvm::enumerate(*to)) {
    int64_t before = i < added ? 1 : (*from)[i - added];
    OpShardingRule::Dim &dim = result.emplace_back();
    if (before == 0)
      return std::nullopt;
    if (size != before)
      dim = rule.addDim(FactorKind::Broadcast, size / before);
    if (i < added)
      continue;
    rule.operands[0].push_back(rule.addDim(FactorKind::PassThrough, before));
    dim.append(rule.operands[0].back());
  }
  return rule;
}

/// A slice of everything passes the dimension through.
static std::optional<OpShardingRule> slices(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  return from && to && *from == *to ? elementwiseRule(operandShapes(op, shapes), *to) : cutsAlong(op, shapes);
}

static std::optional<OpShardingRule> broadcastsTo(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  if (!from || !to)
    return std::nullopt;
  SmallVector<OptionalShape> operands(op->getNumOperands());
  operands[0] = from;
  // The operand whose shape expand_as takes.
  if (operands.size() > 1 && shapes.shapeOf(op->getOperand(1)) == to)
    operands[1] = to;
  return elementwiseRule(operands, *to);
}

static Value sameOperand(OperatorOp op) { return op->getOperand(0); }

/// The operand of a cast to the dtype that it has, which returns it unchanged unless a copy is requested.
static Value castIdentity(OperatorOp op) {
  auto from = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  Value format = op.getArgument("memory_format");
  bool isSame = from && from == op->getResult(0).getType() && (!format || isa<NoneType>(format.getType()));
  return isSame && constantInt(op, "copy") == 0 ? op->getOperand(0) : Value();
}

/// `x[:]`
static Value sliceIdentity(OperatorOp op) {
  bool isWhole = constantInt(op, "start") == 0 && constantInt(op, "step") == 1 &&
                 constantInt(op, "end") == std::numeric_limits<int64_t>::max();
  return isWhole ? op->getOperand(0) : Value();
}

/// Views whose inverse is the same operator: transpose, t.
static Value again(OperatorOp view, Value changed, OpBuilder &builder) {
  SmallVector<Value> operands(view->getOperands());
  operands[0] = changed;
  return OperatorOp::create(builder, view->getLoc(), view.getName(), operands, changed.getType())
      ->getResult(0);
}

/// The order of dimensions that undoes a permutation; null if it is only known at run time.
static Value permutedBack(OperatorOp view, Value changed, OpBuilder &builder) {
  auto order = constantInts(view, "dims");
  if (!order)
    return {};
  SmallVector<int64_t> back(order->size());
  for (auto [to, from] : llvm::enumerate(*order))
    if (auto dim = dimensionAt(from, order->size()))
      back[*dim] = to;
    else
      return {};
  Type list = ListType::get(builder.getContext(), builder.getI64Type());
  Value dims = builder.create<ConstantOp>(view->getLoc(), list, builder.getI64ArrayAttr(back));
  return OperatorOp::create(builder, view->getLoc(), view.getName(), {changed, dims},
                            view->getOperand(0).getType())
      ->getResult(0);
}

/// Views of the whole base; the inverse takes the base's sizes.
static Value reshaped(OperatorOp view, Value changed, OpBuilder &builder) {
  Value base = view->getOperand(0);
  Type sizes = ListType::get(builder.getContext(), builder.getI64Type());
  Value size = OperatorOp::create(builder, view->getLoc(), "aten.size", base, sizes)->getResult(0);
  return OperatorOp::create(builder, view->getLoc(), "aten.reshape", {changed, size}, base.getType())
      ->getResult(0);
}

static Value passed(OperatorOp, Value changed, OpBuilder &) { return changed; }

static Value joinedBy(StringRef name, OperatorOp view, Value parts, OpBuilder &builder) {
  return OperatorOp::create(builder, view->getLoc(), name, {parts, view.getArgument("dim")},
                            view->getOperand(0).getType())
      ->getResult(0);
}
/// Lists of views that together cover the base.
static Value concatenated(OperatorOp view, Value parts, OpBuilder &builder) {
  return joinedBy("aten.cat", view, parts, builder);
}
static Value stacked(OperatorOp view, Value parts, OpBuilder &builder) {
  return joinedBy("aten.stack", view, parts, builder);
}

static OpSemantics sized(OpSemantics entry, llvm::StringLiteral sizes) {
  entry.sizes = sizes;
  return entry;
}

/// Indices to rows of all classes.
static std::optional<OpShardingRule> addsClasses(OperatorOp op, const ExampleShapes &shapes) {
  return einsumRule("... -> ...c", "c:replicated", operandShapes(op, shapes), resultShapes(op, shapes));
}

/// Each result is its operand in the shape of all together.
static std::optional<OpShardingRule> broadcasts(OperatorOp op, const ExampleShapes &shapes) {
  const SmallVector<OptionalShape> operands = operandShapes(op, shapes);
  return elementwiseRule(operands, broadcastShape(operands));
}

void addShapes(SemanticsTable &table) {
  table.add({"aten.alias"},
            {.isView = true, .identityOf = sameOperand, .shardingRule = broadcastsTo, .viewInverse = passed});
  table.add({"aten.detach"},
            {.isView = true, .stopsGradients = true, .shardingRule = broadcastsTo, .viewInverse = passed});
  OpSemantics view{
      .isView = true, .hasStaticResultTypes = true, .shardingRule = regroups, .viewInverse = reshaped};
  table.add({"aten.unsqueeze", "aten.view_as"}, view);
  OpSemantics squeeze = view;
  squeeze.shardingRule = squeezes;
  table.add({"aten.squeeze"}, squeeze);
  table.add({"aten.view", "aten._unsafe_view"}, sized(view, "size"));
  table.add({"aten.unflatten"}, sized(view, "sizes"));
  OpSemantics reshape{
      .mayBeView = true, .hasStaticResultTypes = true, .shardingRule = regroups, .viewInverse = reshaped};
  table.add({"aten.flatten", "aten.reshape_as"}, reshape);
  table.add({"aten.reshape"}, sized(reshape, "shape"));
  table.add({"aten.to"}, {.mayBeView = true,
                          .isCast = true,
                          .hasStaticResultTypes = true,
                          .identityOf = castIdentity,
                          .shardingRule = broadcastsTo});
  table.add({"aten.contiguous"}, {.mayBeView = true,
                                  .givesContiguous = true,
                                  .hasStaticResultTypes = true,
                                  .shardingRule = broadcastsTo});
  table.add({"aten.cpu"}, {.mayBeView = true, .hasStaticResultTypes = true, .shardingRule = broadcastsTo});
  table.add({"aten.float", "aten.half", "aten.bfloat16", "aten.double", "aten.int", "aten.long", "aten.bool"},
            {.mayBeView = true, .isCast = true, .hasStaticResultTypes = true, .shardingRule = broadcastsTo});
  OpSemantics expand{.isView = true, .hasStaticResultTypes = true, .shardingRule = broadcastsTo};
  table.add({"aten.expand_as"}, expand);
  table.add({"aten.expand", "aten.broadcast_to"}, sized(expand, "size"));
  table.add({"aten.movedim", "aten.moveaxis"}, {.isView = true, .permutes = true, .shardingRule = moves});
  table.add({"aten.transpose", "aten.swapaxes", "aten.swapdims", "aten.mT"}, {.isView = true,
                                                                              .permutes = true,
                                                                              .hasStaticResultTypes = true,
                                                                              .shardingRule = transposes,
                                                                              .viewInverse = again});
  table.add({"aten.t", "aten.numpy_T"},
            {.isView = true, .permutes = true, .shardingRule = reverses, .viewInverse = again});
  table.add({"aten.permute"}, {.isView = true,
                               .permutes = true,
                               .hasStaticResultTypes = true,
                               .shardingRule = permutes,
                               .viewInverse = permutedBack});
  table.add({"aten.slice"}, {.isView = true,
                             .identityOf = sliceIdentity,
                             .shardingRule = slices,
                             .indexMap = sliceIndexMap,
                             .scatterForm = "aten.slice_scatter"});
  table.add({"aten.select"}, {.isView = true, .shardingRule = drops, .scatterForm = "aten.select_scatter"});
  table.add({"aten.diagonal"}, {.isView = true, .scatterForm = "aten.diagonal_scatter"});
  table.add({"aten.narrow"}, {.isView = true,
                              .rangeStart = "start",
                              .rangeLength = "length",
                              .shardingRule = cutsAlong,
                              .indexMap = sliceIndexMap});
  table.add(
      {"aten.chunk", "aten.split", "aten.split_with_sizes", "aten.tensor_split", "aten.unsafe_chunk",
       "aten.unsafe_split", "aten.unsafe_split_with_sizes"},
      {.isView = true, .shardingRule = splitsAlong, .indexMap = splitIndexMap, .viewInverse = concatenated});
  table.add({"aten.unbind"}, {.isView = true, .shardingRule = drops, .viewInverse = stacked});
  table.add({"aten.as_strided"}, {.isView = true});
  table.add({"aten.broadcast_tensors"}, {.shardingRule = broadcasts});
  table.add({"aten.cat", "aten.concat"}, {.shardingRule = cutsAlong, .indexMap = concatIndexMap});
  table.add({"aten.repeat_interleave"}, {.shardingRule = interleaves, .indexMap = interleaveIndexMap});
  table.add({"aten.slice_scatter"}, {.shardingRule = cutsAlong});
  table.add({"aten.diff"}, {.hasStaticResultTypes = true, .shardingRule = cutsAlong});
  table.add({"aten.roll"},
            {.hasStaticResultTypes = true, .shardingRule = cutsAlong, .indexMap = rollIndexMap});
  table.add({"aten.flip"},
            {.hasStaticResultTypes = true, .shardingRule = cutsAlong, .indexMap = flipIndexMap});
  table.add({"aten.pad", "aten.constant_pad_nd", "aten.reflection_pad1d", "aten.replication_pad1d",
             "aten.reflection_pad2d"},
            {.hasStaticResultTypes = true, .shardingRule = pads});
  table.add({"aten.tril", "aten.triu"}, {.hasStaticResultTypes = true, .shardingRule = triangles});
  table.add({"aten.repeat"}, {.sizes = "repeats", .shardingRule = repeats});
  // Its list may be shorter than the result's dimensions.
  table.add({"aten.tile"}, {.shardingRule = repeats});
  table.add({"aten.stack"}, {.shardingRule = stacks});
  table.add({"aten.one_hot"}, {.shardingRule = addsClasses});
  table.add({"aten.select_scatter", "aten.diagonal_scatter", "aten.meshgrid"}, {});
}

} // namespace cleave
