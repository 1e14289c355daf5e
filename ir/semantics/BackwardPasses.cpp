//===- BackwardPasses.cpp - Operators that only autograd calls ------------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"

using namespace mlir;

namespace cleave {

static double severalPerElement(OperatorOp op, const ExampleShapes &shapes) {
  return 8.0 * shapes.elementsOf(op->getOperand(0));
}

/// Tensors of as many dimensions as the first operand: those of one size in all of them pass through, but for
/// those that `needsReplication` names. Other operands have no dimensions.
static std::optional<OpShardingRule>
passThroughExcept(OperatorOp op, const ExampleShapes &shapes,
                  llvm::function_ref<bool(unsigned dim)> needsReplication) {
  const auto operands = operandShapes(op, shapes), results = resultShapes(op, shapes);
  const OptionalShape &first = operands[0];
  if (!first || llvm::any_of(results, [&](auto &shape) { return !shape || shape->size() != first->size(); }))
    return std::nullopt;
  auto isAlike = [&](const OptionalShape &shape) { return shape && shape->size() == first->size(); };
  OpShardingRule rule;
  SmallVector<std::optional<unsigned>> shared(first->size());
  for (unsigned dim = 0; dim < first->size(); ++dim) {
    auto isOfSize = [&](const OptionalShape &shape) {
      return !isAlike(shape) || (*shape)[dim] == (*first)[dim];
    };
    if (!needsReplication(dim) && llvm::all_of(operands, isOfSize) && llvm::all_of(results, isOfSize))
      shared[dim] = rule.addFactor(FactorKind::PassThrough, (*first)[dim]);
  }
  auto dimsOf = [&](const OptionalShape &shape) {
    OpShardingRule::Dims dims;
    if (isAlike(shape))
      for (auto [size, factor] : llvm::zip(*shape, shared))
        dims.push_back(factor ? OpShardingRule::Dim{*factor}
                              : rule.addDim(FactorKind::NeedsReplication, size));
    return dims;
  };
  for (const OptionalShape &shape : operands)
    rule.operands.push_back(dimsOf(shape));
  for (const OptionalShape &shape : results)
    rule.results.push_back(dimsOf(shape));
  return rule;
}

/// Dimension `dim` is whole.
static std::optional<OpShardingRule> replicatesDim(OperatorOp op, const ExampleShapes &shapes) {
  auto first = shapes.shapeOf(op->getOperand(0));
  auto named = constantInt(op, "dim");
  auto dim = first && named ? dimensionAt(*named, first->size()) : std::nullopt;
  if (!dim)
    return std::nullopt;
  return passThroughExcept(op, shapes, [&](unsigned each) { return each == *dim; });
}

/// The trailing dimensions, whose number is in the operator's name (`aten.avg_pool2d_backward`), are whole.
static std::optional<OpShardingRule> replicatesSpatialDims(OperatorOp op, const ExampleShapes &shapes) {
  auto first = shapes.shapeOf(op->getOperand(0));
  const size_t spatial = op.getBaseName()[op.getBaseName().find_first_of("123")] - '0';
  if (!first || first->size() < spatial)
    return std::nullopt;
  return passThroughExcept(op, shapes, [&](unsigned each) { return each + spatial >= first->size(); });
}

/// select_backward(grad, sizes, dim, index): the result has `dim` besides.
static std::optional<OpShardingRule> selectBackward(OperatorOp op, const ExampleShapes &shapes) {
  auto gradient = shapes.shapeOf(op->getOperand(0)), result = shapes.shapeOf(op->getResult(0));
  auto named = constantInt(op, "dim");
  auto dim = result && named ? dimensionAt(*named, result->size()) : std::nullopt;
  if (!gradient || !dim || gradient->size() + 1 != result->size())
    return std::nullopt;
  auto rule = ruleWithKind(*gradient, {}, FactorKind::PassThrough, op->getNumOperands(), true);
  rule->results[0].insert(rule->results[0].begin() + *dim,
                          rule->addDim(FactorKind::NeedsReplication, (*result)[*dim]));
  return rule;
}

/// native_layer_norm_backward(grad, input, normalized_shape, mean, rstd, weight, bias, mask) → like input,
/// weight, bias: what is not normalized is summed in gradients of the weights.
static std::optional<OpShardingRule> layerNormBackward(OperatorOp op, const ExampleShapes &shapes) {
  auto input = shapes.shapeOf(op->getOperand(1));
  auto normalized = constantInts(op, "normalized_shape");
  if (!input || !normalized || normalized->size() > input->size())
    return std::nullopt;
  const size_t outer = input->size() - normalized->size();
  OpShardingRule rule;
  OpShardingRule::Dims all, statistics;
  for (auto [i, size] : llvm::enumerate(*input)) {
    all.push_back(rule.addDim(i < outer ? FactorKind::PassThrough : FactorKind::NeedsReplication, size));
    statistics.push_back(i < outer ? all.back() : rule.addDim(FactorKind::NeedsReplication, 1));
  }
  const OpShardingRule::Dims inner(all.begin() + outer, all.end());
  rule.operands = {all, all, {}, statistics, statistics, {}, {}};
  for (unsigned operand : {5, 6})
    if (shapes.shapeOf(op->getOperand(operand)))
      rule.operands[operand] = inner;
  rule.results = {all, inner, inner};
  for (unsigned factor = 0; factor < outer; ++factor)
    for (unsigned result : {1, 2})
      rule.partialResults.push_back({result, all[factor].front()});
  return rule;
}

/// native_batch_norm_backward(grad, input, weight, running_mean, running_var, save_mean, save_invstd, train,
/// eps, mask) → like input, weight, bias. The batch is replicated: in training the statistics, and with them
/// the gradient of each sample, depend on all samples.
static std::optional<OpShardingRule> batchNormBackward(OperatorOp op, const ExampleShapes &shapes) {
  auto input = shapes.shapeOf(op->getOperand(1));
  if (!input || input->size() < 2)
    return std::nullopt;
  OpShardingRule rule;
  OpShardingRule::Dims all;
  for (auto [i, size] : llvm::enumerate(*input))
    all.push_back(rule.addDim(i == 1 ? FactorKind::PassThrough : FactorKind::NeedsReplication, size));
  const OpShardingRule::Dims channels{all[1]};
  rule.operands = {all, all};
  rule.operands.resize(op->getNumOperands());
  for (unsigned operand = 2; operand < 7; ++operand)
    if (auto shape = shapes.shapeOf(op->getOperand(operand)); shape && shape->size() == 1)
      rule.operands[operand] = channels;
  rule.results = {all, channels, channels};
  return rule;
}

/// embedding_dense_backward(grad[…, d], indices[…], v, padding, scales) → [v, d]. Each rank can make a range
/// of rows.
static std::optional<OpShardingRule> embeddingBackward(OperatorOp op, const ExampleShapes &shapes) {
  // How often an index occurs is known where all indices are.
  const bool isWhole =
      constantInt(op, "scale_grad_by_freq").value_or(1) || !constantInt(op, "padding_idx").has_value();
  auto rule = einsumRule("...d, ... -> vd", isWhole ? "v:replicated" : "v:composed",
                         operandShapes(op, shapes), resultShapes(op, shapes));
  if (!rule)
    return std::nullopt;
  // Gradients of equal indices are added.
  for (const OpShardingRule::Dim &dim : rule->operands[1])
    rule->factors[dim.front()].kind = FactorKind::NeedsReplication;
  return rule;
}

static SmallVector<Value> shardedEmbeddingBackward(OperatorOp op, const ShardedForm &form) {
  constexpr int64_t kNoRow = -1;
  const int64_t padding = *constantInt(op, "padding_idx");
  const Value rows =
      form.ownIndices(op->getOperand(1), padding >= 0 ? std::optional(padding) : std::nullopt, kNoRow);
  return {form.call("aten.embedding_dense_backward",
                    {op->getOperand(0), rows, form.count(), form.integer(kNoRow), form.boolean(false)})};
}

void addBackwardPasses(SemanticsTable &table) {
  table.add({"aten._softmax_backward_data", "aten.glu_backward"},
            {.hasStaticResultTypes = true, .flops = severalPerElement, .shardingRule = replicatesDim});
  table.add({"aten.slice_backward"},
            {.hasStaticResultTypes = true, .sizes = "input_sizes", .shardingRule = replicatesDim});
  table.add({"aten.select_backward"},
            {.hasStaticResultTypes = true, .sizes = "input_sizes", .shardingRule = selectBackward});
  table.add({"aten.native_layer_norm_backward"}, {.isSumOverReduceFactors = true,
                                                  .hasStaticResultTypes = true,
                                                  .flops = severalPerElement,
                                                  .shardingRule = layerNormBackward});
  table.add({"aten.native_batch_norm_backward"},
            {.hasStaticResultTypes = true, .flops = severalPerElement, .shardingRule = batchNormBackward});
  table.add({"aten.embedding_dense_backward"}, {.hasStaticResultTypes = true,
                                                .shardedForm = shardedEmbeddingBackward,
                                                .shardingRule = embeddingBackward});
  table.add(
      {"aten._adaptive_avg_pool2d_backward", "aten._adaptive_avg_pool3d_backward",
       "aten.adaptive_max_pool2d_backward", "aten.adaptive_max_pool3d_backward", "aten.avg_pool2d_backward",
       "aten.avg_pool3d_backward", "aten.max_pool2d_with_indices_backward",
       "aten.max_pool3d_with_indices_backward"},
      {.hasStaticResultTypes = true, .flops = severalPerElement, .shardingRule = replicatesSpatialDims});
  table.add({"aten.upsample_linear1d_backward", "aten.upsample_bilinear2d_backward",
             "aten.upsample_trilinear3d_backward", "aten.upsample_bicubic2d_backward",
             "aten.upsample_nearest1d_backward", "aten.upsample_nearest2d_backward",
             "aten.upsample_nearest3d_backward", "aten._upsample_nearest_exact1d_backward",
             "aten._upsample_nearest_exact2d_backward", "aten._upsample_nearest_exact3d_backward",
             "aten._upsample_bilinear2d_aa_backward", "aten._upsample_bicubic2d_aa_backward"},
            {.hasStaticResultTypes = true,
             .sizes = "input_size",
             .flops = severalPerElement,
             .shardingRule = replicatesSpatialDims});
}

} // namespace cleave
