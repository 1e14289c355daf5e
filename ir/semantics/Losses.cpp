//===- Losses.cpp - Losses, and which operators are linear ----------------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace cleave {

static double severalPerElement(OperatorOp op, const ExampleShapes &shapes) {
  return 8.0 * shapes.elementsOf(op->getOperand(0));
}

static bool isReduced(OperatorOp op) {
  const StringRef argument = semanticsOf(op.getName()).lossReduction;
  return argument.empty() || constantInt(op, argument) != 0;
}

/// Makes every factor of a result that is reduced one of operands only.
static void reduceAll(OpShardingRule &rule) {
  for (OpShardingRule::Factor &factor : rule.factors)
    if (factor.kind == FactorKind::PassThrough || factor.kind == FactorKind::Broadcast)
      factor.kind = FactorKind::Reduce;
  rule.results.assign(1, {});
}

/// Elements of all tensor operands, broadcast, and reduced to one number.
static std::optional<OpShardingRule> reducedElements(OperatorOp op, const ExampleShapes &shapes) {
  const SmallVector<OptionalShape> operands = operandShapes(op, shapes);
  auto rule = elementwiseRule(operands, broadcastShape(operands));
  if (rule && isReduced(op))
    reduceAll(*rule);
  return rule;
}

/// scores[n, c, …] or [c]; target[n, …], indices of classes, or like the scores, probabilities; weight[c].
static std::optional<OpShardingRule> reducedClasses(OperatorOp op, const ExampleShapes &shapes) {
  auto scores = shapes.shapeOf(op->getOperand(0)), target = shapes.shapeOf(op->getOperand(1));
  if (!scores || !target || scores->empty())
    return std::nullopt;
  const size_t classes = scores->size() > 1 ? 1 : 0;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  OpShardingRule::Dims others;
  for (auto [i, size] : llvm::enumerate(*scores)) {
    const bool isClass = i == classes;
    rule.operands[0].push_back(
        rule.addDim(isClass ? FactorKind::NeedsReplication : FactorKind::PassThrough, size));
    if (!isClass)
      others.push_back(rule.operands[0].back());
  }
  const bool hasIndices = target->size() + 1 == scores->size();
  if (!hasIndices && *target != *scores)
    return std::nullopt;
  rule.operands[1] = hasIndices ? others : rule.operands[0];
  if (shapes.shapeOf(op->getOperand(2)))
    rule.operands[2] = {rule.operands[0][classes]};
  rule.results.push_back(others);
  if (isReduced(op))
    reduceAll(rule);
  return rule;
}

/// The number of targets that are not `ignore_index`, or the sum of their class weights.
static Value targetNormalizer(OperatorOp op, OpBuilder &builder) {
  auto call = [&](StringRef name, ValueRange operands) {
    return OperatorOp::create(builder, op->getLoc(), name, operands,
                              UnknownTensorType::get(builder.getContext()))
        ->getResult(0);
  };
  auto integer = [&](int64_t value) -> Value {
    return builder.create<ConstantOp>(op->getLoc(), builder.getI64Type(), builder.getI64IntegerAttr(value));
  };
  const Value none = builder.create<ConstantOp>(op->getLoc(), builder.getNoneType(), builder.getUnitAttr());
  const Value target = op->getOperand(1), weight = op.getArgument("weight");
  const Value counts = call("aten.ne.Scalar", {target, op.getArgument("ignore_index")});
  if (!isTensorLike(weight.getType()))
    return call("aten.sum", {counts, none});
  const Value flat = builder.create<ConstantOp>(
      op->getLoc(), ListType::get(builder.getContext(), builder.getI64Type()), builder.getI64ArrayAttr({-1}));
  const Value classes = call("aten.where.ScalarOther", {counts, target, integer(0)});
  const Value weights =
      call("aten.index_select", {weight, integer(0), call("aten.reshape", {classes, flat})});
  return call("aten.sum", {call("aten.mul.Tensor", {weights, call("aten.reshape", {counts, flat})}), none});
}

void addLinearity(SemanticsTable &table) {
  table.set(&OpSemantics::linearity, Linearity::All,
            {"aten.add", "aten.sub", "aten.rsub", "aten.neg", "aten.sum", "aten.mean", "aten.stack",
             "aten.cat", "aten.concat", "aten.clone", "aten.type_as", "prim.NumToTensor", "aten.Float"});
  table.set(&OpSemantics::linearity, Linearity::Each, {"aten.mul"});
  table.set(&OpSemantics::linearity, Linearity::First, {"aten.div", "aten.true_divide"});
}

void addLosses(SemanticsTable &table) {
  table.add({"aten.mse_loss", "aten.l1_loss", "aten.smooth_l1_loss", "aten.huber_loss", "aten.kl_div",
             "aten.binary_cross_entropy", "aten.binary_cross_entropy_with_logits", "aten.soft_margin_loss",
             "aten.poisson_nll_loss", "aten.hinge_embedding_loss", "aten.margin_ranking_loss"},
            {.lossReduction = "reduction",
             .hasStaticResultTypes = true,
             .flops = severalPerElement,
             .shardingRule = reducedElements});
  table.add({"aten.cross_entropy_loss", "aten.nll_loss", "aten.nll_loss2d", "aten.nll_loss_nd"},
            {.lossReduction = "reduction",
             .meanNormalizer = targetNormalizer,
             .hasStaticResultTypes = true,
             .flops = severalPerElement,
             .shardingRule = reducedClasses});
}
} // namespace cleave
