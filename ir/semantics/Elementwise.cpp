//===- Elementwise.cpp - Operators that work element by element -----------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"

using namespace mlir;

namespace cleave {

static std::optional<OpShardingRule> broadcasts(OperatorOp op, const ExampleShapes &shapes) {
  auto result = shapes.shapeOf(op->getResult(0));
  if (!result)
    return std::nullopt;
  return elementwiseRule(operandShapes(op, shapes), *result);
}

/// input[b, c, …], weight[c] or weight[1]. An input of one dimension has one channel.
static std::optional<OpShardingRule> prelu(OperatorOp op, const ExampleShapes &shapes) {
  auto shape = shapes.shapeOf(op->getOperand(0)), weight = shapes.shapeOf(op->getOperand(1));
  if (!shape || !weight || weight->size() > 1)
    return std::nullopt;
  auto rule = ruleWithKind(*shape, {}, FactorKind::PassThrough, op->getNumOperands(), true);
  if (weight->size() == 1)
    rule->operands[1].push_back((*weight)[0] == 1 ? rule->addDim(FactorKind::NeedsReplication, 1)
                                                  : rule->operands[0][1]);
  return rule;
}

/// Transcendental functions cost about ten additions on vector units.
static double costly(OperatorOp op, const ExampleShapes &shapes) {
  return 10.0 * shapes.elementsOf(op->getResult(0));
}

/// The operand, if `train` or `training` is false, so that nothing is dropped.
static Value dropoutIdentity(OperatorOp op) {
  if (auto p = dyn_cast_or_null<FloatAttr>(op.getConstantArgument("p")); p && p.getValue().isZero())
    return op->getOperand(0);
  for (StringRef name : {"train", "training"})
    if (auto flag = dyn_cast_or_null<IntegerAttr>(op.getConstantArgument(name)))
      return flag.getValue().isZero() ? op->getOperand(0) : Value();
  return {};
}

void addElementwise(SemanticsTable &table) {
  table.add(
      {"aten.add"},
      {.isElementwise = true, .addScale = "alpha", .hasStaticResultTypes = true, .shardingRule = broadcasts});
  table.add({"aten.sub",
             "aten.rsub",
             "aten.mul",
             "aten.neg",
             "aten.abs",
             "aten.relu",
             "aten.relu6",
             "aten.clamp",
             "aten.clamp_min",
             "aten.clamp_max",
             "aten.maximum",
             "aten.minimum",
             "aten.where.self",
             "aten.where.ScalarOther",
             "aten.where.ScalarSelf",
             "aten.where.Scalar",
             "aten.eq",
             "aten.ne",
             "aten.lt",
             "aten.le",
             "aten.gt",
             "aten.ge",
             "aten.logical_and",
             "aten.logical_or",
             "aten.logical_not",
             "aten.logical_xor",
             "aten.bitwise_and",
             "aten.bitwise_or",
             "aten.bitwise_not",
             "aten.bitwise_xor",
             "aten.__and__",
             "aten.__or__",
             "aten.__xor__",
             "aten.masked_fill",
             "aten.floor",
             "aten.ceil",
             "aten.round",
             "aten.trunc",
             "aten.sign",
             "aten.fmod",
             "aten.remainder",
             "aten.reciprocal",
             "aten.square",
             "aten.hardtanh",
             "aten.leaky_relu",
             "aten.threshold",
             "aten.hardswish",
             "aten.hardsigmoid",
             "aten.addcmul",
             "aten.addcdiv",
             "aten.lerp",
             "aten.isnan",
             "aten.isinf",
             "aten.isfinite",
             "aten.nan_to_num",
             "aten.fill",
             "aten.zero",
             "aten.copy",
             "aten.bitwise_left_shift",
             "aten.bitwise_right_shift",
             "aten.__lshift__",
             "aten.__rshift__",
             "aten.real",
             "aten.imag",
             "aten.zeros_like",
             "aten.ones_like",
             "aten.full_like",
             "aten.clone",
             "aten.type_as",
             "aten.max.other",
             "aten.min.other",
             "aten.threshold_backward",
             "aten.leaky_relu_backward",
             "aten.hardtanh_backward",
             "aten.hardswish_backward",
             "aten.hardsigmoid_backward",
             "aten.softshrink_backward",
             "aten.hardshrink_backward",
             "aten.rrelu_with_noise_backward",
             "aten.tanh_backward",
             "aten.sigmoid_backward",
             "aten.native_dropout_backward",
             "aten.quantize_per_tensor",
             "aten.dequantize.self"},
            {.isElementwise = true, .hasStaticResultTypes = true, .shardingRule = broadcasts});
  table.add({"aten.floor_divide"}, {.isElementwise = true,
                                    .hasStaticResultTypes = true,
                                    .permutationRole = PermutationRole::FloorDivide,
                                    .shardingRule = broadcasts});
  table.add(
      {"aten.div",
       "aten.true_divide",
       "aten.pow",
       "aten.exp",
       "aten.exp2",
       "aten.expm1",
       "aten.log",
       "aten.log2",
       "aten.log10",
       "aten.log1p",
       "aten.sqrt",
       "aten.rsqrt",
       "aten.sin",
       "aten.cos",
       "aten.tan",
       "aten.tanh",
       "aten.sigmoid",
       "aten.silu",
       "aten.gelu",
       "aten.elu",
       "aten.selu",
       "aten.celu",
       "aten.mish",
       "aten.softplus",
       "aten.erf",
       "aten.erfinv",
       "aten.atan",
       "aten.atan2",
       "aten.asin",
       "aten.acos",
       "aten.sinh",
       "aten.cosh",
       "aten.log_sigmoid",
       "aten.logaddexp",
       "aten.logit",
       "aten.angle",
       "aten.polar",
       "aten.complex",
       "aten.gelu_backward",
       "aten.silu_backward",
       "aten.elu_backward",
       "aten.mish_backward",
       "aten.softplus_backward",
       "aten.log_sigmoid_backward",
       "aten.logit_backward"},
      {.isElementwise = true, .hasStaticResultTypes = true, .flops = costly, .shardingRule = broadcasts});
  table.add({"aten.dropout", "aten.feature_dropout", "aten.alpha_dropout", "aten.feature_alpha_dropout"},
            {.isElementwise = true, .identityOf = dropoutIdentity, .shardingRule = broadcasts});
  table.add({"aten.prelu"}, {.hasStaticResultTypes = true, .shardingRule = prelu});
  table.add({"aten.empty_like"}, {.isElementwise = true,
                                  .hasStaticResultTypes = true,
                                  .isUninitialized = true,
                                  .shardingRule = broadcasts});
  // Random numbers along a sharded dimension must be independent, so these pass it through only for shapes.
  table.add({"aten.bernoulli", "aten.rand_like", "aten.randn_like", "aten.native_dropout", "aten.uniform",
             "aten.normal_functional", "aten.exponential"},
            {.isElementwise = true, .hasStaticResultTypes = true, .shardingRule = broadcasts});
  table.add(
      {"random.uniform", "random.normal", "random.bernoulli"},
      {.isElementwise = true, .hasStaticResultTypes = true, .shardingRule = broadcasts, .drawsByKey = true});
}

} // namespace cleave
