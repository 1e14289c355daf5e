//===- Norms.cpp - Reductions, normalisations and pooling -----------------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"

using namespace mlir;

namespace cleave {

static double perInputElement(OperatorOp op, const ExampleShapes &shapes) {
  return shapes.elementsOf(op->getOperand(0));
}
static double severalPerElement(OperatorOp op, const ExampleShapes &shapes) {
  return 8.0 * shapes.elementsOf(op->getOperand(0));
}

/// The dimensions in `dim`; all dimensions if it is absent or None.
static SmallVector<int64_t> dimsOf(OperatorOp op, size_t rank) {
  if (auto dims = constantInts(op, "dim"); dims && !dims->empty())
    return *dims;
  if (auto dim = constantInt(op, "dim"))
    return {*dim};
  return llvm::to_vector(llvm::seq<int64_t>(0, rank));
}

static std::optional<OpShardingRule> along(OperatorOp op, const ExampleShapes &shapes, FactorKind kind) {
  auto shape = shapes.shapeOf(op->getOperand(0));
  auto isTensor = [&](Value operand) { return shapes.shapeOf(operand).has_value(); };
  if (!shape || llvm::any_of(op->getOperands().drop_front(), isTensor))
    return std::nullopt;
  return ruleWithKind(*shape, dimsOf(op, shape->size()), kind, op->getNumOperands(),
                      constantInt(op, "keepdim").value_or(0));
}
static std::optional<OpShardingRule> reduces(OperatorOp op, const ExampleShapes &shapes) {
  return along(op, shapes, FactorKind::Reduce);
}
/// The dimension may have another size in the result, as in topk.
static std::optional<OpShardingRule> needsWhole(OperatorOp op, const ExampleShapes &shapes) {
  auto rule = along(op, shapes, FactorKind::NeedsReplication);
  auto result = shapes.shapeOf(op->getResult(0));
  if (!rule || !result || result->size() != rule->results[0].size())
    return std::nullopt;
  for (auto [dim, size] : llvm::zip(rule->results[0], *result))
    if (rule->factors[dim[0]].size != size)
      dim = rule->addDim(FactorKind::NeedsReplication, size);
  return rule;
}
static std::optional<OpShardingRule> inOrder(OperatorOp op, const ExampleShapes &shapes) {
  return along(op, shapes, FactorKind::Scan);
}

/// Layer and RMS norms: the trailing `normalized_shape` dimensions are needed whole.
static std::optional<OpShardingRule> trailing(OperatorOp op, const ExampleShapes &shapes) {
  auto shape = shapes.shapeOf(op->getOperand(0));
  auto normalized = constantInts(op, "normalized_shape");
  if (!shape || !normalized)
    return std::nullopt;
  SmallVector<int64_t> dims;
  for (int64_t i = 1; i <= int64_t(normalized->size()); ++i)
    dims.push_back(-i);
  return ruleWithKind(*shape, dims, FactorKind::NeedsReplication, op->getNumOperands(), true);
}

/// v[…, d, …], g[1, …, d, …, 1] → like v: each index of `dim` is normalised by itself. For -1, all is
/// normalised together.
static std::optional<OpShardingRule> weightNorm(OperatorOp op, const ExampleShapes &shapes) {
  auto shape = shapes.shapeOf(op->getOperand(0)), scale = shapes.shapeOf(op->getOperand(1));
  auto dim = constantInt(op, "dim");
  if (!shape || !scale || !dim || *dim < 0 || scale->size() != shape->size())
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  for (auto [i, size] : llvm::enumerate(*shape)) {
    const bool isKept = int64_t(i) == *dim;
    rule.operands[0].push_back(
        rule.addDim(isKept ? FactorKind::PassThrough : FactorKind::NeedsReplication, size));
    rule.operands[1].push_back(isKept ? rule.operands[0].back()
                                      : rule.addDim(FactorKind::NeedsReplication, 1));
  }
  rule.results.push_back(rule.operands[0]);
  return rule;
}

/// On CPU, ATen computes an RMS norm step by step, in float32 or wider. The workspace is the squares or, with
/// a weight, the normalised input while the result is made; a narrow input widened; and one or two numbers
/// per row.
static int64_t rmsNormWorkspace(OperatorOp op, const ExampleShapes &shapes, int64_t) {
  auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  if (!type)
    return 0;
  int64_t elements = shapes.elementsOf(op->getOperand(0)), size = elementBytes(type.getElementType());
  bool hasWeight = !isa<NoneType>(op.getArgument("weight").getType());
  int64_t narrow = size < 4 ? 8 - (hasWeight ? size : 0) : 0;
  int64_t wide = std::max<int64_t>(size, 4), rows = 0;
  if (auto shape = shapes.shapeOf(op->getOperand(0)); elements && shape && !shape->empty())
    rows = elements / shape->back();
  return elements * (narrow + (hasWeight ? wide : 0)) + rows * wide * (hasWeight ? 1 : 2);
}

/// In evaluation, a batch norm uses stored statistics and passes the batch through; in training it mixes
/// samples.
static std::optional<OpShardingRule> batchNorm(OperatorOp op, const ExampleShapes &shapes) {
  auto shape = shapes.shapeOf(op->getOperand(0));
  auto training = constantInt(op, "training");
  if (!shape || !training || shape->size() < 2)
    return std::nullopt;
  SmallVector<int64_t> mixed;
  if (*training)
    for (int64_t i = 0; i < int64_t(shape->size()); ++i)
      if (i != 1)
        mixed.push_back(i);
  auto rule = ruleWithKind(*shape, mixed, FactorKind::NeedsReplication, op->getNumOperands(), true);
  // Weight, bias, mean and variance have an entry per channel.
  for (unsigned i = 1; i < 5; ++i)
    if (shapes.shapeOf(op->getOperand(i)))
      rule->operands[i].push_back(rule->operands[0][1]);
  return rule;
}

/// input[b, g·c, …], weight[g·c], bias[g·c] → [b, g·c, …]; each of g groups is normalised by itself.
static std::optional<OpShardingRule> groupNorm(OperatorOp op, const ExampleShapes &shapes) {
  auto shape = shapes.shapeOf(op->getOperand(0));
  auto groups = constantInt(op, "num_groups");
  if (!shape || shape->size() < 2 || !groups || *groups < 1 || (*shape)[1] % *groups)
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  rule.channelGroups = rule.addFactor(FactorKind::PassThrough, *groups);
  OpShardingRule::Dim batch = rule.addDim(FactorKind::PassThrough, (*shape)[0]);
  OpShardingRule::Dim channels{*rule.channelGroups,
                               rule.addFactor(FactorKind::NeedsReplication, (*shape)[1] / *groups)};
  auto &input = rule.operands[0];
  input = {batch, channels};
  for (int64_t size : ArrayRef<int64_t>(*shape).drop_front(2))
    input.push_back(rule.addDim(FactorKind::NeedsReplication, size));
  for (unsigned i = 1; i < rule.operands.size(); ++i)
    if (shapes.shapeOf(op->getOperand(i)))
      rule.operands[i] = {channels};
  rule.results.push_back(input);
  return rule;
}

/// input[n,c,h,w], grid[n,x,y,2] → [n,c,x,y].
static std::optional<OpShardingRule> gridSampler(OperatorOp op, const ExampleShapes &shapes) {
  return einsumRule("nchw, nxyt -> ncxy", "h:replicated w:replicated t:replicated", operandShapes(op, shapes),
                    resultShapes(op, shapes));
}

/// Windows over trailing dimensions, whose number is in the operator's name (`aten.max_pool2d_with_indices`);
/// batch and channels pass through.
static std::optional<OpShardingRule> windows(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  size_t spatial = op.getBaseName()[op.getBaseName().find_first_of("123")] - '0';
  if (!from || !to || from->size() != to->size() || from->size() < spatial)
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  auto &result = rule.results.emplace_back();
  for (size_t i = 0; i < to->size(); ++i) {
    bool isSpace = i >= to->size() - spatial;
    result.push_back(rule.addDim(isSpace ? FactorKind::NeedsReplication : FactorKind::PassThrough, (*to)[i]));
    rule.operands[0].push_back(isSpace ? rule.addDim(FactorKind::NeedsReplication, (*from)[i])
                                       : result.back());
  }
  return rule;
}

/// Everything except for the batch is needed whole (groups, space).
static std::optional<OpShardingRule> batchOnly(OperatorOp op, const ExampleShapes &shapes) {
  auto from = shapes.shapeOf(op->getOperand(0)), to = shapes.shapeOf(op->getResult(0));
  if (!from || !to || from->empty() || to->empty() || (*from)[0] != (*to)[0])
    return std::nullopt;
  OpShardingRule rule;
  rule.operands.resize(op->getNumOperands());
  OpShardingRule::Dim batch = rule.addDim(FactorKind::PassThrough, (*from)[0]);
  auto &result = rule.results.emplace_back();
  rule.operands[0].push_back(batch);
  result.push_back(batch);
  for (int64_t size : ArrayRef<int64_t>(*from).drop_front())
    rule.operands[0].push_back(rule.addDim(FactorKind::NeedsReplication, size));
  for (int64_t size : ArrayRef<int64_t>(*to).drop_front())
    result.push_back(rule.addDim(FactorKind::NeedsReplication, size));
  return rule;
}

void addNorms(SemanticsTable &table) {
  table.add({"aten.sum"}, {.isSumOverReduceFactors = true,
                           .hasStaticResultTypes = true,
                           .flops = perInputElement,
                           .shardingRule = reduces});
  table.add({"aten.mean"}, {.isSumOverReduceFactors = true,
                            .isMean = true,
                            .hasStaticResultTypes = true,
                            .flops = perInputElement,
                            .shardingRule = reduces});
  table.add({"aten.amax",
             "aten.amin",
             "aten.prod",
             "aten.all",
             "aten.any",
             "aten.max",
             "aten.min",
             "aten.argmax",
             "aten.argmin",
             "aten.var",
             "aten.std",
             "aten.norm",
             "aten.linalg_vector_norm",
             "aten.logsumexp",
             "aten.count_nonzero",
             "aten.var_mean",
             "aten.std_mean",
             "aten.nansum",
             "aten.kthvalue",
             "aten.mode"},
            {.hasStaticResultTypes = true, .flops = perInputElement, .shardingRule = reduces});
  table.add(
      {"aten.softmax", "aten._softmax", "aten._safe_softmax", "aten.log_softmax", "aten.median", "aten.glu"},
      {.hasStaticResultTypes = true, .flops = severalPerElement, .shardingRule = needsWhole});
  table.add({"aten.sort", "aten.argsort"}, {.hasStaticResultTypes = true,
                                            .permutationRole = PermutationRole::Sort,
                                            .lastResultIsIndices = true,
                                            .flops = severalPerElement,
                                            .shardingRule = needsWhole});
  table.add({"aten.topk"}, {.hasStaticResultTypes = true,
                            .lastResultIsIndices = true,
                            .flops = severalPerElement,
                            .shardingRule = needsWhole});
  table.add({"aten.cumsum"}, {.hasStaticResultTypes = true,
                              .permutationRole = PermutationRole::CumulativeSum,
                              .flops = perInputElement,
                              .shardingRule = inOrder});
  table.add({"aten.cumprod", "aten.cummax", "aten.cummin", "aten.logcumsumexp"},
            {.hasStaticResultTypes = true, .flops = perInputElement, .shardingRule = inOrder});
  table.add({"aten.layer_norm", "aten.native_layer_norm"},
            {.hasStaticResultTypes = true, .flops = severalPerElement, .shardingRule = trailing});
  table.add({"aten.rms_norm"}, {.hasStaticResultTypes = true,
                                .flops = severalPerElement,
                                .workspaceBytes = rmsNormWorkspace,
                                .shardingRule = trailing});
  table.add({"aten._weight_norm"},
            {.hasStaticResultTypes = true, .flops = perInputElement, .shardingRule = weightNorm});
  table.add({"aten._native_batch_norm_legit_functional"},
            {.hasStaticResultTypes = true, .flops = severalPerElement, .firstResultWithoutGradient = 3});
  table.add({"aten.batch_norm"},
            {.hasStaticResultTypes = true, .flops = severalPerElement, .shardingRule = batchNorm});
  table.add({"aten.max_pool1d",
             "aten.max_pool2d",
             "aten.max_pool3d",
             "aten.max_pool1d_with_indices",
             "aten.max_pool2d_with_indices",
             "aten.max_pool3d_with_indices",
             "aten.avg_pool1d",
             "aten.avg_pool2d",
             "aten.avg_pool3d",
             "aten.adaptive_avg_pool1d",
             "aten.adaptive_avg_pool2d",
             "aten.adaptive_avg_pool3d",
             "aten.adaptive_max_pool1d",
             "aten.adaptive_max_pool2d",
             "aten.adaptive_max_pool3d",
             "aten.upsample_nearest1d",
             "aten.upsample_nearest2d",
             "aten.upsample_nearest3d",
             "aten._upsample_nearest_exact1d",
             "aten._upsample_nearest_exact2d",
             "aten._upsample_nearest_exact3d",
             "aten.upsample_linear1d",
             "aten.upsample_bilinear2d",
             "aten.upsample_trilinear3d",
             "aten.upsample_bicubic2d",
             "aten._upsample_bilinear2d_aa",
             "aten._upsample_bicubic2d_aa"},
            {.hasStaticResultTypes = true, .flops = severalPerElement, .shardingRule = windows});
  table.add({"aten.group_norm"}, {.hasStaticResultTypes = true,
                                  .groups = "num_groups",
                                  .flops = severalPerElement,
                                  .shardingRule = groupNorm});
  table.add({"aten.instance_norm"},
            {.hasStaticResultTypes = true, .flops = severalPerElement, .shardingRule = batchOnly});
  table.add({"aten.grid_sampler"},
            {.hasStaticResultTypes = true, .flops = severalPerElement, .shardingRule = gridSampler});
}

} // namespace cleave
