//===- Products.cpp - Matrix products, convolutions and attention ---------===//
#include "ir/semantics/OpSemantics.h"
#include "ir/semantics/Shapes.h"

using namespace mlir;

namespace cleave {

/// Two operations a multiplication of `result` elements by the contracted size.
static double contraction(OperatorOp op, const TracedShapes &shapes, unsigned operand, int dimFromEnd) {
  auto shape = shapes.shapeOf(op->getOperand(operand));
  if (!shape || shape->size() < static_cast<size_t>(dimFromEnd))
    return 0;
  return 2.0 * shapes.elementsOf(op->getResult(0)) * (*shape)[shape->size() - dimFromEnd];
}

static double firstTimesLast(OperatorOp op, const TracedShapes &shapes) { return contraction(op, shapes, 0, 1); }
static double secondTimesLast(OperatorOp op, const TracedShapes &shapes) { return contraction(op, shapes, 1, 1); }

static std::optional<DimensionRule> einsum(OperatorOp op, const TracedShapes &shapes, StringRef text,
                                           StringRef kinds = "") {
  return einsumRule(text, kinds, operandShapes(op, shapes), resultShapes(op, shapes));
}

static std::optional<DimensionRule> linear(OperatorOp op, const TracedShapes &shapes) {
  return einsum(op, shapes, "...k, nk, n -> ...n");
}
static std::optional<DimensionRule> addmm(OperatorOp op, const TracedShapes &shapes) {
  return einsum(op, shapes, "...n, mk, kn -> mn");
}
static std::optional<DimensionRule> mm(OperatorOp op, const TracedShapes &shapes) {
  return einsum(op, shapes, "mk, kn -> mn");
}
static std::optional<DimensionRule> bmm(OperatorOp op, const TracedShapes &shapes) {
  return einsum(op, shapes, "bmk, bkn -> bmn");
}
static std::optional<DimensionRule> baddbmm(OperatorOp op, const TracedShapes &shapes) {
  return einsum(op, shapes, "...mn, bmk, bkn -> bmn");
}

static std::optional<DimensionRule> matmul(OperatorOp op, const TracedShapes &shapes) {
  auto left = shapes.shapeOf(op->getOperand(0)), right = shapes.shapeOf(op->getOperand(1));
  if (!left || !right)
    return std::nullopt;
  if (left->size() == 1)
    return einsum(op, shapes, right->size() == 1 ? "k, k -> " : "k, ...kn -> ...n");
  return einsum(op, shapes, right->size() == 1 ? "...mk, k -> ...m" : "...mk, ...kn -> ...mn");
}

/// A matmul of 4-d operands folds the leading ones; an operand whose layout does not allow that is copied.
static int64_t matmulWorkspace(OperatorOp op, const TracedShapes &shapes) {
  int64_t bytes = 0;
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    auto layout = type ? dyn_cast_or_null<LayoutAttr>(type.getEncoding()) : LayoutAttr();
    if (type && type.getRank() > 3 && layout && !layout.getStrides().empty()) {
      auto batch = SymbolicDim::parse(layout.getStrides()[0]), head = SymbolicDim::parse(layout.getStrides()[1]);
      auto outer = batch->evaluate(shapes.sizes()), inner = head->evaluate(shapes.sizes());
      auto shape = shapes.shapeOf(operand);
      if (shape && outer && inner && (*shape)[0] != 1 && *outer != *inner * (*shape)[1])
        bytes += shapes.bytesOf(operand);
    }
  }
  return bytes;
}

static double convolutionFlops(OperatorOp op, const TracedShapes &shapes) {
  auto weight = shapes.shapeOf(op->getOperand(1));
  if (!weight || weight->empty())
    return 0;
  auto transposed = dyn_cast_or_null<IntegerAttr>(op.getConstantArgument("transposed"));
  bool isTransposed = transposed && !transposed.getValue().isZero();
  // Weight [out, in/groups, k…]: an output element takes in/groups·k… products; transposed: an input element out/groups·k….
  double taps = 1;
  for (int64_t size : ArrayRef<int64_t>(*weight).drop_front())
    taps *= size;
  return 2.0 * taps * shapes.elementsOf(isTransposed ? op->getOperand(0) : op->getResult(0));
}

/// oneDNN copies input and weight into its blocked layout and, those freed, the result back; a pointwise strided
/// convolution also gathers the input's used points of one image, for each thread (one a device). Measured over the
/// convolutions of ResNet-50 on AVX-512.
static int64_t convolutionWorkspace(OperatorOp op, const TracedShapes &shapes) {
  auto input = shapes.shapeOf(op->getOperand(0)), weight = shapes.shapeOf(op->getOperand(1));
  auto result = shapes.shapeOf(op->getResult(0));
  auto stride = constantInts(op, "stride");
  int64_t before = shapes.bytesOf(op->getOperand(0)) + shapes.bytesOf(op->getOperand(1));
  int64_t after = shapes.bytesOf(op->getResult(0));
  bool isPointwise = weight && llvm::all_of(llvm::drop_begin(*weight, 2), [](int64_t size) { return size == 1; });
  bool isStrided = stride && llvm::any_of(*stride, [](int64_t step) { return step > 1; });
  if (isPointwise && isStrided && input && result && after > 0)
    before += after / (*result)[0] / (*result)[1] * (*input)[1];
  return std::max(before, after);
}

static std::optional<DimensionRule> convolution(OperatorOp op, const TracedShapes &shapes) {
  auto input = shapes.shapeOf(op->getOperand(0));
  auto result = shapes.shapeOf(op->getResult(0));
  if (!input || !result || input->size() != result->size() || input->size() < 3)
    return std::nullopt;
  // Channels are one segment here whatever the groups; grouped splits come with their own factor.
  DimensionRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &from = rule.operands[0];
  auto &to = rule.results.emplace_back();
  unsigned batch = rule.addFactor(FactorKind::Pass, (*input)[0]);
  from = {batch, rule.addFactor(FactorKind::Block, (*input)[1])};
  to = {batch, rule.addFactor(FactorKind::Block, (*result)[1])};
  for (size_t i = 2; i < input->size(); ++i) {
    from.push_back(rule.addFactor(FactorKind::Halo, (*input)[i]));
    to.push_back(rule.addFactor(FactorKind::Halo, (*result)[i]));
  }
  return rule;
}

/// q[b,h,s,d], k[b,g,t,d], v[b,g,t,e]: two products of s × t a head (Vaswani et al. 2017); causal ones are made whole.
static double attentionFlops(OperatorOp op, const TracedShapes &shapes) {
  auto query = shapes.shapeOf(op.getArgument("query")), key = shapes.shapeOf(op.getArgument("key"));
  auto value = shapes.shapeOf(op.getArgument("value"));
  if (!query || !key || !value || query->size() < 2 || key->size() < 2 || value->empty())
    return 0;
  double scores = double(shapes.elementsOf(op.getArgument("query"))) * (*key)[key->size() - 2];
  return 2.0 * scores + 2.0 * scores / query->back() * value->back();
}

static std::optional<DimensionRule> attention(OperatorOp op, const TracedShapes &shapes) {
  auto operands = operandShapes(op, shapes);
  if (operands.size() < 3 || !operands[0] || !operands[1] || operands[0]->size() < 3)
    return std::nullopt;
  auto causal = constantInt(op, "is_causal");
  // Grouped queries have more heads than keys; they are one factor only where equal.
  bool isGrouped = operands[0]->size() == 4 && (*operands[0])[1] != (*operands[1])[1];
  StringRef text = isGrouped ? "bhsd, bgtd, bgte -> bhse" : "...sd, ...td, ...te -> ...se";
  for (size_t i = 3; i < operands.size(); ++i)
    operands[i] = std::nullopt;
  return einsumRule(text, causal.value_or(0) ? "t:prefix d:block g:block" : "t:block d:block g:block", operands,
                    resultShapes(op, shapes));
}

/// The CPU kernel's running maximum and sum, one of each a query row, kept for the backward pass.
static int64_t attentionWorkspace(OperatorOp op, const TracedShapes &shapes) {
  auto query = shapes.shapeOf(op.getArgument("query"));
  return query && query->size() == 4 ? 4 * (*query)[0] * (*query)[1] * (*query)[2] : 0;
}

void addProducts(SemanticsTable &table) {
  table.add({"aten.linear"}, {.flops = firstTimesLast, .dimensions = linear});
  table.add({"aten.addmm"}, {.flops = secondTimesLast, .dimensions = addmm});
  table.add({"aten.mm"}, {.flops = firstTimesLast, .dimensions = mm});
  table.add({"aten.bmm"}, {.flops = firstTimesLast, .dimensions = bmm});
  table.add({"aten.baddbmm"}, {.flops = secondTimesLast, .dimensions = baddbmm});
  table.add({"aten.matmul"}, {.flops = firstTimesLast, .workspaceBytes = matmulWorkspace, .dimensions = matmul});
  // Rows by expert: the expert of a row is not in its position.
  table.add({"aten._grouped_mm"}, {.flops = firstTimesLast});
  table.add({"aten._convolution", "aten.convolution", "aten.conv1d", "aten.conv2d", "aten.conv3d",
             "aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d"},
            {.flops = convolutionFlops, .workspaceBytes = convolutionWorkspace, .dimensions = convolution});
  table.add({"aten.scaled_dot_product_attention"},
            {.flops = attentionFlops, .workspaceBytes = attentionWorkspace, .dimensions = attention});
}

} // namespace cleave
