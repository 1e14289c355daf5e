//===- Convolutions.cpp - Convolutions and what they allocate -------------===//
#include "ir/semantics/OpSemantics.h"
#include "ir/semantics/Shapes.h"

using namespace mlir;

namespace cleave {

static bool isTransposed(OperatorOp op) {
  return op.getName().starts_with("aten.conv_transpose") || constantInt(op, "transposed").value_or(0);
}

static double convolutionFlops(OperatorOp op, const TracedShapes &shapes) {
  auto weight = shapes.shapeOf(op->getOperand(1));
  if (!weight || weight->empty())
    return 0;
  // Weight [out, in/groups, k…]: an output element takes in/groups·k… products; transposed: an input element
  // out/groups·k….
  double taps = 1;
  for (int64_t size : ArrayRef<int64_t>(*weight).drop_front())
    taps *= size;
  return 2.0 * taps * shapes.elementsOf(isTransposed(op) ? op->getOperand(0) : op->getResult(0));
}

static bool isStrided(OperatorOp op) {
  auto stride = constantInts(op, "stride");
  return stride && llvm::any_of(*stride, [](int64_t step) { return step > 1; });
}

/// Whether oneDNN multiplies input[b, c, …] as it is by weight[o, c, 1, …]: pointwise, of stride one.
static bool isInPlace(OperatorOp op, ArrayRef<int64_t> input, ArrayRef<int64_t> weight) {
  return llvm::all_of(weight.drop_front(2), [](int64_t size) { return size == 1; }) && weight[1] == input[1] &&
         !isStrided(op);
}

static std::optional<ProductShape> convolutionProduct(OperatorOp op, const TracedShapes &shapes) {
  auto input = shapes.shapeOf(op->getOperand(0)), weight = shapes.shapeOf(op->getOperand(1));
  auto result = shapes.shapeOf(op->getResult(0));
  double elements = shapes.elementsOf(op->getResult(0)), flops = convolutionFlops(op, shapes);
  if (!input || !weight || isTransposed(op) || input->size() < 3 || input->size() != weight->size() || flops == 0)
    return std::nullopt;
  double groups = double((*input)[1]) / (*weight)[1], columns = (*result)[1] / groups;
  double count = (*result)[0] * groups, rows = elements / count / columns;
  const ProductKind kind = isInPlace(op, *input, *weight) ? ProductKind::Pointwise
                           : isStrided(op)                ? ProductKind::Strided
                                                          : ProductKind::Convolution;
  return ProductShape{kind, count, rows, columns, flops / (2 * elements)};
}

/// A convolution in place (`isInPlace`) needs nothing. Any other copies weight and input
/// into oneDNN's blocked layout (inputs of fewer channels than a block are read as they are) and, those
/// freed, the result back; a strided pointwise one also gathers the input's used points of one image, for
/// each thread (one a device). Measured over the convolutions of ResNet-50 on AVX-512.
static int64_t convolutionWorkspace(OperatorOp op, const TracedShapes &shapes) {
  constexpr int64_t channelsOfBlock = 16;
  auto input = shapes.shapeOf(op->getOperand(0)), weight = shapes.shapeOf(op->getOperand(1));
  auto result = shapes.shapeOf(op->getResult(0));
  if (!input || !weight || !result || input->size() < 3 || input->size() != result->size())
    return 0;
  if (isInPlace(op, *input, *weight))
    return 0;
  bool isPointwise = llvm::all_of(llvm::drop_begin(*weight, 2), [](int64_t size) { return size == 1; });
  int64_t after = shapes.bytesOf(op->getResult(0));
  int64_t before = shapes.bytesOf(op->getOperand(1));
  if ((*input)[1] >= channelsOfBlock)
    before += shapes.bytesOf(op->getOperand(0));
  if (isPointwise && isStrided(op) && after > 0)
    before += after / (*result)[0] / (*result)[1] * (*input)[1];
  return std::max(before, after);
}

/// input[b, g·c, …], weight[g·o, c, …] → [b, g·o, …] in g groups; transposed, the weight is [g·c, o, …].
static std::optional<DimensionRule> convolution(OperatorOp op, const TracedShapes &shapes) {
  auto input = shapes.shapeOf(op->getOperand(0));
  auto weight = shapes.shapeOf(op->getOperand(1));
  auto result = shapes.shapeOf(op->getResult(0));
  // An input of one dimension less than the weight has no batch.
  if (!input || !weight || !result || input->size() != weight->size() || input->size() != result->size() ||
      input->size() < 3 || (*weight)[1] == 0)
    return std::nullopt;
  const bool transposed = isTransposed(op);
  int64_t groups = (transposed ? *result : *input)[1] / (*weight)[1];
  if (groups == 0 || (*input)[1] % groups || (*result)[1] % groups)
    return std::nullopt;
  DimensionRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &from = rule.operands[0], &kernel = rule.operands[1];
  auto &to = rule.results.emplace_back();
  DimensionRule::Dim batch = rule.addDim(FactorKind::Pass, (*input)[0]);
  unsigned in = rule.addFactor(FactorKind::Reduce, (*input)[1] / groups);
  unsigned out = rule.addFactor(FactorKind::Pass, (*result)[1] / groups);
  DimensionRule::Dim ins{in}, outs{out};
  if (groups > 1) {
    rule.groups = rule.addFactor(FactorKind::Pass, groups);
    ins.insert(ins.begin(), *rule.groups);
    outs.insert(outs.begin(), *rule.groups);
  }
  from = {batch, ins};
  to = {batch, outs};
  if (transposed)
    kernel = {ins, {out}};
  else
    kernel = {outs, {in}};
  if (shapes.shapeOf(op.getArgument("bias")))
    rule.operands[2] = {outs};
  for (size_t i = 2; i < input->size(); ++i) {
    from.push_back(rule.addDim(FactorKind::Halo, (*input)[i]));
    kernel.push_back(rule.addDim(FactorKind::Block, (*weight)[i]));
    to.push_back(rule.addDim(FactorKind::Halo, (*result)[i]));
  }
  return rule;
}

void addConvolutions(SemanticsTable &table) {
  table.add({"aten._convolution", "aten.convolution", "aten._convolution_mode", "aten.conv1d", "aten.conv2d",
             "aten.conv3d", "aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d"},
            {.isProduct = true,
             .sumsParts = true,
             .addedArgument = "bias",
             .hasTypesOfOperands = true,
             .groups = "groups",
             .flops = convolutionFlops,
             .product = convolutionProduct,
             .workspaceBytes = convolutionWorkspace,
             .dimensions = convolution});
}

} // namespace cleave
