//===- Losses.cpp - Losses, and which operators are linear ----------------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"
#include "mlir/IR/Builders.h"
#include <limits>

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

//===- Sharded classes ----------------------------------------------------===//

/// self[n, c] or a tensor of that size, of which the classes are sharded: dimension `dim`.
static std::optional<OpShardingRule> shardedClasses(OperatorOp op, const ExampleShapes &shapes, int64_t dim) {
  auto scores = shapes.shapeOf(op->getOperand(0));
  auto classes = scores ? dimensionAt(dim, scores->size()) : std::nullopt;
  if (!classes)
    return std::nullopt;
  return ruleWithKind(*scores, {int64_t(*classes)}, FactorKind::Composed, op->getNumOperands(), true);
}

/// _log_softmax(self, dim, half_to_float).
static std::optional<OpShardingRule> logSoftmax(OperatorOp op, const ExampleShapes &shapes) {
  const auto dim = constantInt(op, "dim"), widens = constantInt(op, "half_to_float");
  return dim && widens == 0 ? shardedClasses(op, shapes, *dim) : std::nullopt;
}

/// x - log Σ exp x, where ranks exchange the logarithms of their sums.
static SmallVector<Value> shardedLogSoftmax(OperatorOp op, const ShardedForm &form) {
  const auto shape = cast<RankedTensorType>(op->getResult(0).getType());
  const int64_t dim = *dimensionAt(*constantInt(op, "dim"), shape.getRank());
  const Value dims = form.integers({dim}), keeps = form.boolean(true), x = op->getOperand(0);
  const Value own = form.call("aten.logsumexp", {x, dims, keeps});
  const Value all = form.call("aten.logsumexp", {form.gathered(own, dim), dims, keeps});
  return {form.call("aten.sub.Tensor", {x, all, form.integer(1)})};
}

/// _log_softmax_backward_data(grad, output, dim, dtype).
static std::optional<OpShardingRule> logSoftmaxBackward(OperatorOp op, const ExampleShapes &shapes) {
  const auto dim = constantInt(op, "dim");
  auto rule = dim ? shardedClasses(op, shapes, *dim) : std::nullopt;
  if (rule)
    rule->operands[1] = rule->operands[0];
  return rule;
}

/// grad - exp(output) · Σ grad, the sum being over the ranks.
static SmallVector<Value> shardedLogSoftmaxBackward(OperatorOp op, const ShardedForm &form) {
  const Value gradient = op->getOperand(0), output = op->getOperand(1);
  const auto shape = cast<RankedTensorType>(op->getResult(0).getType());
  const int64_t dim = *dimensionAt(*constantInt(op, "dim"), shape.getRank());
  const Value sum = form.sum(
      form.call("aten.sum.dim_IntList", {gradient, form.integers({dim}), form.boolean(true), form.none()}));
  const Value scaled = form.call("aten.mul.Tensor", {form.call("aten.exp", output), sum});
  return {form.call("aten.sub.Tensor", {gradient, scaled, form.integer(1)})};
}

/// nll_loss_forward(self[n, c], target[n], weight, reduction, ignore_index) → loss, total weight; without
/// class weights.
static std::optional<OpShardingRule> shardedNll(OperatorOp op, const ExampleShapes &shapes) {
  auto scores = shapes.shapeOf(op->getOperand(0)), loss = shapes.shapeOf(op->getResult(0));
  if (!scores || scores->size() != 2 || !loss || isTensorLike(op.getArgument("weight").getType()) ||
      !constantInt(op, "reduction") || !constantInt(op, "ignore_index"))
    return std::nullopt;
  OpShardingRule rule;
  const OpShardingRule::Dim samples = rule.addDim(FactorKind::NeedsReplication, (*scores)[0]);
  rule.operands.resize(op->getNumOperands());
  rule.operands[0] = {samples, rule.addDim(FactorKind::Composed, (*scores)[1])};
  rule.operands[1] = {samples};
  rule.results = {loss->empty() ? OpShardingRule::Dims() : OpShardingRule::Dims{samples}, {}};
  return rule;
}

/// Stands for targets of other ranks, and for those that are ignored.
static constexpr int64_t kNoClass = std::numeric_limits<int64_t>::min();

static Value ownTargets(OperatorOp op, Value target, const ShardedForm &form) {
  return form.ownIndices(target, constantInt(op, "ignore_index"), kNoClass);
}

/// Each rank has the losses of the targets in its range, and 0 for others.
static SmallVector<Value> shardedNllForward(OperatorOp op, const ShardedForm &form) {
  const Value scores = op->getOperand(0), target = op->getOperand(1);
  const Value losses =
      form.calls("aten.nll_loss_forward",
                 {scores, ownTargets(op, target, form), form.none(), form.integer(0), form.integer(kNoClass)},
                 2)
          .front();
  const Value counted = form.call("aten.ne.Scalar", {target, op.getArgument("ignore_index")});
  const Value count = form.call("aten.type_as", {form.call("aten.sum", {counted, form.none()}), scores});
  const int64_t reduction = *constantInt(op, "reduction");
  if (reduction == 0)
    return {form.sum(losses), count};
  const Value sum = form.sum(form.call("aten.sum", {losses, form.none()}));
  return {reduction == 1 ? form.call("aten.div.Tensor", {sum, count}) : sum, count};
}

/// nll_loss_backward(grad, self[n, c], target[n], weight, reduction, ignore_index, total_weight) → like self.
static std::optional<OpShardingRule> shardedNllBackward(OperatorOp op, const ExampleShapes &shapes) {
  auto scores = shapes.shapeOf(op->getOperand(1));
  if (!scores || scores->size() != 2 || isTensorLike(op.getArgument("weight").getType()) ||
      !constantInt(op, "ignore_index"))
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  const OpShardingRule::Dim samples = rule.addDim(FactorKind::NeedsReplication, (*scores)[0]);
  rule.operands[1] = {samples, rule.addDim(FactorKind::Composed, (*scores)[1])};
  rule.operands[2] = {samples};
  if (auto gradient = shapes.shapeOf(op->getOperand(0)); gradient && !gradient->empty())
    rule.operands[0] = {samples};
  rule.results = {rule.operands[1]};
  return rule;
}

static SmallVector<Value> shardedNllGradient(OperatorOp op, const ShardedForm &form) {
  SmallVector<Value> operands(op->getOperands());
  operands[2] = ownTargets(op, operands[2], form);
  operands[5] = form.integer(kNoClass);
  return {form.call("aten.nll_loss_backward", operands)};
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
  table.add({"aten._log_softmax"}, {.hasStaticResultTypes = true,
                                    .flops = severalPerElement,
                                    .shardedForm = shardedLogSoftmax,
                                    .shardingRule = logSoftmax});
  table.add({"aten._log_softmax_backward_data"}, {.hasStaticResultTypes = true,
                                                  .flops = severalPerElement,
                                                  .shardedForm = shardedLogSoftmaxBackward,
                                                  .shardingRule = logSoftmaxBackward});
  table.add({"aten.nll_loss_forward"}, {.hasStaticResultTypes = true,
                                        .flops = severalPerElement,
                                        .shardedForm = shardedNllForward,
                                        .shardingRule = shardedNll});
  table.add({"aten.nll_loss_backward"}, {.hasStaticResultTypes = true,
                                         .flops = severalPerElement,
                                         .shardedForm = shardedNllGradient,
                                         .shardingRule = shardedNllBackward});
}
} // namespace cleave
