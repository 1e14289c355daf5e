//===- ShapeOps.cpp - Views, copies and joins -----------------------------===//
#include "ir/semantics/OpSemantics.h"
#include "ir/semantics/Shapes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace cleave {

/// Splits and merges of row-major dimensions: sizes are matched from the left; where the running products meet, a group
/// ends. A group of one dimension each side passes; in others the leading dimension passes as far as it is the same.
static std::optional<DimensionRule> regroups(OperatorOp op, const TracedShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  if (!from || !to)
    return std::nullopt;
  DimensionRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &source = rule.operands[0];
  auto &result = rule.results.emplace_back();
  size_t i = 0, j = 0;
  while (i < from->size() && j < to->size() && (*from)[i] == (*to)[j]) {
    unsigned same = rule.addFactor(FactorKind::Pass, (*from)[i]);
    source.push_back(same);
    result.push_back(same);
    ++i, ++j;
  }
  for (; i < from->size(); ++i)
    source.push_back(rule.addFactor(FactorKind::Block, (*from)[i]));
  for (; j < to->size(); ++j)
    result.push_back(rule.addFactor(FactorKind::Block, (*to)[j]));
  // The operand that view_as and reshape_as take the shape from.
  if (op->getNumOperands() > 1 && shapes.shapeOf(op->getOperand(1)))
    rule.operands[1] = result;
  return rule;
}

static std::optional<DimensionRule> permuted(OperatorOp op, const TracedShapes &shapes, ArrayRef<int64_t> order) {
  auto from = shapes.shapeOf(op->getOperand(0));
  if (!from || order.size() != from->size())
    return std::nullopt;
  DimensionRule rule;
  rule.operands.resize(op->getNumOperands());
  for (int64_t size : *from)
    rule.operands[0].push_back(rule.addFactor(FactorKind::Pass, size));
  auto &result = rule.results.emplace_back();
  for (int64_t dim : order)
    result.push_back(dim < 0 ? dim + from->size() : dim);
  return rule;
}

static std::optional<DimensionRule> permutes(OperatorOp op, const TracedShapes &shapes) {
  auto order = constantInts(op, "dims");
  return order ? permuted(op, shapes, *order) : std::nullopt;
}

static std::optional<DimensionRule> transposes(OperatorOp op, const TracedShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0));
  if (!from)
    return std::nullopt;
  int64_t rank = from->size();
  bool isMatrix = op->getNumOperands() == 1;
  auto first = isMatrix ? -2 : constantInt(op, "dim0"), second = isMatrix ? -1 : constantInt(op, "dim1");
  if (!first || !second || rank < 2)
    return std::nullopt;
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(order[*first < 0 ? *first + rank : *first], order[*second < 0 ? *second + rank : *second]);
  return permuted(op, shapes, order);
}

/// numpy's transpose: all dimensions the other way round.
static std::optional<DimensionRule> reverses(OperatorOp op, const TracedShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0));
  if (!from)
    return std::nullopt;
  return permuted(op, shapes, llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, from->size()))));
}

/// Operators that leave all dimensions but `dim` as they are and keep the rank. All tensors have these dimensions.
static std::optional<DimensionRule> cutsAlong(OperatorOp op, const TracedShapes &shapes) {
  auto to = shapes.shapeOf(op->getResult(0));
  auto dim = constantInt(op, "dim");
  if (!to || !dim)
    return std::nullopt;
  DimensionRule rule;
  auto &result = rule.results.emplace_back();
  int64_t cut = *dim < 0 ? *dim + to->size() : *dim;
  for (auto [i, size] : llvm::enumerate(*to))
    result.push_back(rule.addFactor(int64_t(i) == cut ? FactorKind::Block : FactorKind::Pass, size));
  for (const OptionalShape &from : operandShapes(op, shapes)) {
    auto &dims = rule.operands.emplace_back();
    if (!from)
      continue;
    if (from->size() != to->size())
      return std::nullopt;
    dims = result;
    dims[cut] = rule.addFactor(FactorKind::Block, (*from)[cut]);
  }
  return rule;
}

/// A slice of everything passes the dimension.
static std::optional<DimensionRule> slices(OperatorOp op, const TracedShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  return from && to && *from == *to ? elementwiseRule(operandShapes(op, shapes), *to) : cutsAlong(op, shapes);
}

static std::optional<DimensionRule> broadcastsTo(OperatorOp op, const TracedShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  if (!from || !to)
    return std::nullopt;
  SmallVector<OptionalShape> operands(op->getNumOperands());
  operands[0] = from;
  // The operand that expand_as takes the shape from.
  if (operands.size() > 1 && shapes.shapeOf(op->getOperand(1)) == to)
    operands[1] = to;
  return elementwiseRule(operands, *to);
}

static Value sameOperand(OperatorOp op) { return op->getOperand(0); }

/// The operand of a cast to the dtype it has, which is returned as it is unless a copy is asked for.
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
  return OperatorOp::create(builder, view->getLoc(), view.getName(), operands, changed.getType())->getResult(0);
}

/// Views of the whole base: its size is asked of the base itself.
static Value reshaped(OperatorOp view, Value changed, OpBuilder &builder) {
  Value base = view->getOperand(0);
  Type sizes = ListType::get(builder.getContext(), builder.getI64Type());
  Value size = OperatorOp::create(builder, view->getLoc(), "aten.size", base, sizes)->getResult(0);
  return OperatorOp::create(builder, view->getLoc(), "aten.reshape", {changed, size}, base.getType())->getResult(0);
}

static Value passed(OperatorOp, Value changed, OpBuilder &) { return changed; }

/// Rolled dimensions come whole.
static std::optional<DimensionRule> rolls(OperatorOp op, const TracedShapes &shapes) {
  auto shape = shapes.shapeOf(op->getOperand(0));
  auto dims = constantInts(op, "dims");
  if (!shape || !dims || dims->empty())
    return std::nullopt;
  return alongRule(*shape, *dims, FactorKind::Block, op->getNumOperands(), true);
}

void addShapes(SemanticsTable &table) {
  table.add({"aten.alias", "aten.detach"},
            {.isView = true, .identityOf = sameOperand, .dimensions = broadcastsTo, .viewBack = passed});
  table.add({"aten.view", "aten.unsqueeze", "aten.squeeze", "aten._unsafe_view", "aten.unflatten", "aten.view_as"},
            {.isView = true, .hasTypesOfOperands = true, .dimensions = regroups, .viewBack = reshaped});
  table.add({"aten.reshape", "aten.flatten", "aten.reshape_as"},
            {.mayBeView = true, .hasTypesOfOperands = true, .dimensions = regroups, .viewBack = reshaped});
  table.add({"aten.to"}, {.mayBeView = true,
                          .hasTypesOfOperands = true,
                          .identityOf = castIdentity,
                          .dimensions = broadcastsTo});
  table.add({"aten.contiguous", "aten.float", "aten.half", "aten.bfloat16", "aten.double", "aten.int",
             "aten.long", "aten.bool", "aten.cpu"},
            {.mayBeView = true, .hasTypesOfOperands = true, .dimensions = broadcastsTo});
  table.add({"aten.expand", "aten.expand_as", "aten.broadcast_to"}, {.isView = true, .hasTypesOfOperands = true, .dimensions = broadcastsTo});
  table.add({"aten.transpose", "aten.swapaxes", "aten.mT"},
            {.isView = true, .hasTypesOfOperands = true, .dimensions = transposes, .viewBack = again});
  table.add({"aten.t", "aten.numpy_T"}, {.isView = true, .dimensions = reverses, .viewBack = again});
  table.add({"aten.permute"}, {.isView = true, .hasTypesOfOperands = true, .dimensions = permutes});
  table.add(
      {"aten.slice"},
      {.isView = true, .identityOf = sliceIdentity, .dimensions = slices, .scatter = "aten.slice_scatter"});
  table.add({"aten.select"}, {.isView = true, .scatter = "aten.select_scatter"});
  table.add({"aten.diagonal"}, {.isView = true, .scatter = "aten.diagonal_scatter"});
  table.add({"aten.narrow"}, {.isView = true, .dimensions = cutsAlong});
  table.add({"aten.chunk", "aten.split", "aten.split_with_sizes", "aten.unbind", "aten.unfold", "aten.as_strided",
             "aten.tensor_split", "aten.view_as_real", "aten.view_as_complex"},
            {.isView = true});
  table.add({"aten.roll"}, {.hasTypesOfOperands = true, .dimensions = rolls});
  table.add({"aten.flip", "aten.repeat_interleave", "aten.pad", "aten.constant_pad_nd",
             "aten.reflection_pad1d", "aten.slice_scatter"},
            {.dimensions = cutsAlong});
  table.add({"aten.cat", "aten.concat", "aten.stack", "aten.repeat", "aten.tile", "aten.select_scatter",
             "aten.diagonal_scatter", "aten.tril", "aten.triu", "aten.meshgrid", "aten.broadcast_tensors",
             "aten.one_hot"},
            {});
}

} // namespace cleave
