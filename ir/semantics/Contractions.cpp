//===- Contractions.cpp - Matrix products and attention -------------------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

/// Two operations per element of the result and of the contracted size.
static double contraction(OperatorOp op, const ExampleShapes &shapes, unsigned operand, int dimFromEnd) {
  auto shape = shapes.shapeOf(op->getOperand(operand));
  if (!shape || shape->size() < static_cast<size_t>(dimFromEnd))
    return 0;
  return 2.0 * shapes.elementsOf(op->getResult(0)) * (*shape)[shape->size() - dimFromEnd];
}

static double firstTimesLast(OperatorOp op, const ExampleShapes &shapes) {
  return contraction(op, shapes, 0, 1);
}
static double secondTimesLast(OperatorOp op, const ExampleShapes &shapes) {
  return contraction(op, shapes, 1, 1);
}

/// result[…, rows, columns] of left[…, rows, depth]: leading dimensions are rows if `right` is one matrix.
static std::optional<GemmShape> matrices(OperatorOp op, const ExampleShapes &shapes, unsigned left,
                                         unsigned right) {
  auto from = shapes.shapeOf(op->getOperand(left)), with = shapes.shapeOf(op->getOperand(right));
  auto to = shapes.shapeOf(op->getResult(0));
  double elements = shapes.elementsOf(op->getResult(0));
  if (!from || !with || elements == 0 || to->size() < 2 || from->size() < 2 || with->size() < 2)
    return std::nullopt;
  double columns = to->back(), rows = with->size() > 2 ? (*to)[to->size() - 2] : elements / columns;
  return GemmShape{GemmKind::Matrix, elements / rows / columns, rows, columns, double(from->back())};
}
static std::optional<GemmShape> firstBySecond(OperatorOp op, const ExampleShapes &shapes) {
  return matrices(op, shapes, 0, 1);
}
static std::optional<GemmShape> secondByThird(OperatorOp op, const ExampleShapes &shapes) {
  return matrices(op, shapes, 1, 2);
}

static std::optional<OpShardingRule> einsum(OperatorOp op, const ExampleShapes &shapes, StringRef text,
                                            StringRef kinds = "") {
  return einsumRule(text, kinds, operandShapes(op, shapes), resultShapes(op, shapes));
}

static std::optional<OpShardingRule> linear(OperatorOp op, const ExampleShapes &shapes) {
  return einsum(op, shapes, "...k, nk, n -> ...n");
}
/// FLOPs of a whole encoder layer: every weight matrix times the tokens, and attention.
static double encoderLayerFlops(OperatorOp op, const ExampleShapes &shapes) {
  auto source = shapes.shapeOf(op->getOperand(0));
  if (!source || source->empty())
    return 0;
  double tokens = double(shapes.elementsOf(op->getOperand(0))) / std::max<int64_t>(1, source->back()),
         weights = 0;
  for (Value operand : op->getOperands().drop_front())
    if (auto shape = shapes.shapeOf(operand);
        shape && shape->size() == 2 && isa_and_nonnull<ParamOp>(operand.getDefiningOp()))
      weights += shapes.elementsOf(operand);
  double length = source->size() > 1 ? (*source)[source->size() - 2] : 1;
  return 2 * tokens * weights + 4 * tokens * length * source->back();
}

/// The weight is packed.
static std::optional<OpShardingRule> quantizedLinear(OperatorOp op, const ExampleShapes &shapes) {
  return einsum(op, shapes, "...k -> ...n", "k:replicated");
}
/// The first operand is added to the product and broadcast to it: it has the last letters of the result.
static std::optional<OpShardingRule> addedProduct(OperatorOp op, const ExampleShapes &shapes,
                                                  StringRef product, StringRef result) {
  auto added = shapes.shapeOf(op->getOperand(0));
  if (!added || added->size() > result.size())
    return std::nullopt;
  return einsum(op, shapes, (result.take_back(added->size()) + ", " + product + " -> " + result).str());
}
static std::optional<OpShardingRule> addmm(OperatorOp op, const ExampleShapes &shapes) {
  return addedProduct(op, shapes, "mk, kn", "mn");
}
static std::optional<OpShardingRule> mm(OperatorOp op, const ExampleShapes &shapes) {
  return einsum(op, shapes, "mk, kn -> mn");
}
static std::optional<OpShardingRule> bmm(OperatorOp op, const ExampleShapes &shapes) {
  return einsum(op, shapes, "bmk, bkn -> bmn");
}
static std::optional<OpShardingRule> dot(OperatorOp op, const ExampleShapes &shapes) {
  return einsum(op, shapes, "k, k -> ");
}
static std::optional<OpShardingRule> mv(OperatorOp op, const ExampleShapes &shapes) {
  return einsum(op, shapes, "mk, k -> m");
}
static std::optional<OpShardingRule> addmv(OperatorOp op, const ExampleShapes &shapes) {
  return addedProduct(op, shapes, "mk, k", "m");
}
static std::optional<OpShardingRule> outer(OperatorOp op, const ExampleShapes &shapes) {
  return einsum(op, shapes, "m, n -> mn");
}
static std::optional<OpShardingRule> baddbmm(OperatorOp op, const ExampleShapes &shapes) {
  return addedProduct(op, shapes, "bmk, bkn", "bmn");
}

/// Splits a factor into runs of `granule` indices, which stay on one rank. If they do not divide the factor,
/// it needs replication.
static void keepTogether(OpShardingRule &rule, unsigned factor, int64_t granule) {
  if (rule.factors[factor].size % granule) {
    rule.factors[factor].kind = FactorKind::NeedsReplication;
    return;
  }
  rule.factors[factor].size /= granule;
  unsigned inner = rule.addFactor(FactorKind::NeedsReplication, granule);
  for (auto *side : {&rule.operands, &rule.results})
    for (OpShardingRule::Dims &dims : *side)
      for (OpShardingRule::Dim &dim : dims)
        if (dim == OpShardingRule::Dim{factor})
          dim.push_back(inner);
}

/// Grouped GEMM: x[m,k] holds rows sorted by expert, offsets[e] the end of each expert's rows, weight[e,k,n]
/// a matrix per expert. The kernel needs rows aligned to 16 bytes.
static std::optional<OpShardingRule> groupedProduct(OperatorOp op, const ExampleShapes &shapes) {
  constexpr int64_t alignment = 16;
  auto rule = einsum(op, shapes, "mk, ekn, e -> mn", "m:replicated e:replicated");
  auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  if (!rule || !type)
    return std::nullopt;
  unsigned summed = rule->operands[0][1][0], made = rule->operands[1][2][0];
  for (unsigned factor : {summed, made})
    keepTogether(*rule, factor, std::max<int64_t>(1, alignment / elementBytes(type.getElementType())));
  return rule;
}

static std::optional<OpShardingRule> matmul(OperatorOp op, const ExampleShapes &shapes) {
  auto left = shapes.shapeOf(op->getOperand(0)), right = shapes.shapeOf(op->getOperand(1));
  if (!left || !right)
    return std::nullopt;
  if (left->size() == 1)
    return einsum(op, shapes, right->size() == 1 ? "k, k -> " : "k, ...kn -> ...n");
  return einsum(op, shapes, right->size() == 1 ? "...mk, k -> ...m" : "...mk, ...kn -> ...mn");
}

/// A matmul of 4-d operands folds the leading dimensions; an operand whose layout does not allow that is
/// copied.
static int64_t matmulWorkspace(OperatorOp op, const ExampleShapes &shapes, int64_t) {
  int64_t bytes = 0;
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    auto layout = type ? dyn_cast_or_null<LayoutAttr>(type.getEncoding()) : LayoutAttr();
    if (type && type.getRank() > 3 && layout && !layout.getStrides().empty()) {
      auto batch = SymbolicDim::parse(layout.getStrides()[0]),
           head = SymbolicDim::parse(layout.getStrides()[1]);
      auto outer = batch->evaluate(shapes.sizes()), inner = head->evaluate(shapes.sizes());
      auto shape = shapes.shapeOf(operand);
      if (shape && outer && inner && (*shape)[0] != 1 && *outer != *inner * (*shape)[1])
        bytes += shapes.bytesOf(operand);
    }
  }
  return bytes;
}

/// The letters of torch.einsum; nothing if they are left out, repeat in one operand, or stand for several
/// dimensions.
static std::optional<OpShardingRule> einsumOf(OperatorOp op, const ExampleShapes &shapes) {
  auto equation = dyn_cast_or_null<StringAttr>(op.getConstantArgument("equation"));
  if (!equation || equation.getValue().contains('.') || !equation.getValue().contains("->"))
    return std::nullopt;
  std::string text;
  llvm::SmallDenseSet<char> letters;
  for (char letter : equation.getValue()) {
    if (letter == ',' || letter == '-')
      letters.clear();
    if (llvm::isAlpha(letter) && !letters.insert(letter).second)
      return std::nullopt;
    if (letter != ' ')
      text += letter;
  }
  // The equation itself is the first operand.
  return einsum(op, shapes, "," + text);
}

/// Two operations per element of the result and of each contracted dimension.
static double einsumFlops(OperatorOp op, const ExampleShapes &shapes) {
  auto rule = einsumOf(op, shapes);
  double flops = rule ? 2.0 * shapes.elementsOf(op->getResult(0)) : 0;
  for (size_t i = 0; rule && i < rule->factors.size(); ++i)
    if (rule->factors[i].kind == FactorKind::Reduce)
      flops *= rule->factors[i].size;
  return flops;
}

/// q[b,h,s,d], k[b,g,t,d], v[b,g,t,e]: two products of s × t per head (Vaswani et al. 2017); causal attention
/// counts in full.
static double attentionFlops(OperatorOp op, const ExampleShapes &shapes) {
  auto query = shapes.shapeOf(op.getArgument("query")), key = shapes.shapeOf(op.getArgument("key"));
  auto value = shapes.shapeOf(op.getArgument("value"));
  if (!query || !key || !value || query->size() < 2 || key->size() < 2 || value->empty())
    return 0;
  double scores = double(shapes.elementsOf(op.getArgument("query"))) * (*key)[key->size() - 2];
  return 2.0 * scores + 2.0 * scores / query->back() * value->back();
}

/// Attention that saves no scores computes five matrix products in the backward pass for two in the forward
/// pass (Dao et al. 2022).
static double attentionGradientFlops(OperatorOp op, const ExampleShapes &shapes) {
  return attentionFlops(op, shapes) * 5 / 2;
}

static std::optional<GemmShape> attentionGemm(OperatorOp op, const ExampleShapes &shapes) {
  auto query = shapes.shapeOf(op.getArgument("query")), key = shapes.shapeOf(op.getArgument("key"));
  if (attentionFlops(op, shapes) == 0)
    return std::nullopt;
  double rows = (*query)[query->size() - 2], depth = query->back();
  return GemmShape{GemmKind::Attention, shapes.elementsOf(op.getArgument("query")) / rows / depth, rows,
                   double((*key)[key->size() - 2]), depth};
}

/// Grouped-query attention: key head i serves n consecutive query heads, from n·i on.
/// \param query, key  indices of these operands.
static std::optional<OpShardingRule> groupHeads(OpShardingRule rule, unsigned query = 0, unsigned key = 1) {
  unsigned heads = rule.operands[query][1][0], groups = rule.operands[key][1][0];
  OpShardingRule::Factor &each = rule.factors[heads], &group = rule.factors[groups];
  if (group.size == 0 || each.size % group.size)
    return std::nullopt;
  each = {FactorKind::PassThrough, each.size / group.size};
  group.kind = FactorKind::PassThrough;
  for (auto *side : {&rule.operands, &rule.results})
    for (OpShardingRule::Dims &dims : *side)
      for (OpShardingRule::Dim &dim : dims)
        if (dim == OpShardingRule::Dim{heads})
          dim = {groups, heads};
  int64_t all = rule.factors[heads].size * rule.factors[groups].size;
  rule.groupedHeads = {rule.addFactor(FactorKind::PassThrough, all), groups, heads};
  return rule;
}

static std::optional<OpShardingRule> attention(OperatorOp op, const ExampleShapes &shapes) {
  auto operands = operandShapes(op, shapes);
  if (operands.size() < 3 || !operands[0] || !operands[1] || operands[0]->size() < 3)
    return std::nullopt;
  bool isGrouped =
      operands[0]->size() == 4 && operands[1]->size() == 4 && (*operands[0])[1] != (*operands[1])[1];
  std::string text = "...sd, ...td, ...te, ...st -> ...se";
  // Value heads may be grouped differently from key heads.
  if (isGrouped && (!operands[2] || operands[2]->size() != 4 || (*operands[2])[1] != (*operands[1])[1]))
    return std::nullopt;
  if (isGrouped) {
    size_t maskRank = operands.size() > 3 && operands[3] ? operands[3]->size() : 0;
    text = ("bhsd, bgtd, bgte, " + StringRef("bhst").take_back(maskRank) + " -> bhse").str();
  }
  // A causal mask counts from the first query and key, so these are Scan factors.
  bool isCausal = constantInt(op, "is_causal").value_or(1);
  auto rule = einsumRule(text, isCausal ? "s:scan t:scan d:replicated" : "t:replicated d:replicated",
                         operands, resultShapes(op, shapes));
  return rule && isGrouped ? groupHeads(std::move(*rule)) : rule;
}

static bool isGrouped(const OptionalShape &query, const OptionalShape &key) {
  return query && key && query->size() == 4 && key->size() == 4 && (*query)[1] != (*key)[1];
}

/// The letters of the mask, and none of the operands in front of it that are no tensors.
static std::string maskLetters(OperatorOp op, const ExampleShapes &shapes) {
  auto mask = shapes.shapeOf(op.getArgument("attn_mask"));
  return (", , , " + StringRef("bhst").take_back(mask ? std::min<size_t>(mask->size(), 4) : 0)).str();
}

/// Queries and keys are whole, since a causal mask counts from the first of them.
static constexpr llvm::StringLiteral kWholeTokens = "s:replicated t:replicated d:replicated e:replicated";

/// query, key, value, dropout, causal, mask → [b,h,s,e], [b,h,s].
static std::optional<OpShardingRule> flashAttention(OperatorOp op, const ExampleShapes &shapes) {
  const auto operands = operandShapes(op, shapes);
  const bool grouped = isGrouped(operands[0], operands[1]);
  auto rule = einsumRule((grouped ? "bhsd, bgtd, bgte" : "bhsd, bhtd, bhte") + maskLetters(op, shapes) +
                             " -> bhse, bhs",
                         kWholeTokens, operands, resultShapes(op, shapes));
  return rule && grouped ? groupHeads(std::move(*rule)) : rule;
}

/// gradient, query, key, value, out, [b,h,s], dropout, causal, mask → like query, key, value. Key heads stay
/// with their query heads, whose gradients of them are added.
static std::optional<OpShardingRule> flashAttentionBackward(OperatorOp op, const ExampleShapes &shapes) {
  const auto operands = operandShapes(op, shapes);
  const bool grouped = isGrouped(operands[1], operands[2]);
  auto rule =
      einsumRule((grouped ? "bhse, bhsd, bgtd, bgte, bhse, bhs" : "bhse, bhsd, bhtd, bhte, bhse, bhs") +
                     maskLetters(op, shapes) + (grouped ? " -> bhsd, bgtd, bgte" : " -> bhsd, bhtd, bhte"),
                 kWholeTokens, operands, resultShapes(op, shapes));
  if (!rule || !grouped)
    return rule;
  auto own = groupHeads(std::move(*rule), /*query=*/1, /*key=*/2);
  if (own) {
    for (unsigned factor : {own->groupedHeads->queryHeadsPerKv, own->groupedHeads->queryHeads})
      own->factors[factor].kind = FactorKind::NeedsReplication;
    own->groupedHeads.reset();
  }
  return own;
}

/// Workspace of the CPU kernel: a sum per query row, saved for the backward pass; per thread, a block of
/// scores and of results with their running maximum and sum; and a boolean mask converted to numbers.
static int64_t attentionWorkspace(OperatorOp op, const ExampleShapes &shapes, int64_t threads) {
  auto query = shapes.shapeOf(op.getArgument("query")), key = shapes.shapeOf(op.getArgument("key"));
  if (!query || !key || query->size() != 4 || key->size() != 4)
    return 0;
  int64_t rows = (*query)[2], block = std::min<int64_t>(rows, rows >= 768 ? 256 : rows >= 192 ? 64 : 32);
  int64_t scores = block * (std::min<int64_t>((*key)[2], 512) + 2 + query->back());
  auto mask = dyn_cast<RankedTensorType>(op.getArgument("attn_mask").getType());
  bool isBool = mask && mask.getElementType().isInteger(1);
  return 4 * ((*query)[0] * (*query)[1] * rows + threads * scores +
              (isBool ? shapes.elementsOf(op.getArgument("attn_mask")) : 0));
}

void addContractions(SemanticsTable &table) {
  table.add({"aten.linear"}, {.isContraction = true,
                              .isSumOverReduceFactors = true,
                              .addend = "bias",
                              .hasStaticResultTypes = true,
                              .flops = firstTimesLast,
                              .gemm = firstBySecond,
                              .shardingRule = linear});
  table.add({"aten.addmm"}, {.isContraction = true,
                             .isSumOverReduceFactors = true,
                             .addend = "self",
                             .addendScale = "beta",
                             .hasStaticResultTypes = true,
                             .flops = secondTimesLast,
                             .gemm = secondByThird,
                             .shardingRule = addmm});
  table.add({"aten.mm"}, {.isContraction = true,
                          .isSumOverReduceFactors = true,
                          .hasStaticResultTypes = true,
                          .flops = firstTimesLast,
                          .gemm = firstBySecond,
                          .shardingRule = mm});
  table.add({"aten.bmm"}, {.isContraction = true,
                           .isSumOverReduceFactors = true,
                           .hasStaticResultTypes = true,
                           .flops = firstTimesLast,
                           .gemm = firstBySecond,
                           .shardingRule = bmm});
  table.add({"aten.baddbmm"}, {.isContraction = true,
                               .isSumOverReduceFactors = true,
                               .addend = "self",
                               .addendScale = "beta",
                               .hasStaticResultTypes = true,
                               .flops = secondTimesLast,
                               .gemm = secondByThird,
                               .shardingRule = baddbmm});
  // A product of vectors is too small to gain from a narrower dtype.
  table.add({"aten.dot", "aten.vdot"}, {.isSumOverReduceFactors = true,
                                        .hasStaticResultTypes = true,
                                        .flops = firstTimesLast,
                                        .shardingRule = dot});
  table.add({"aten.mv"}, {.isSumOverReduceFactors = true,
                          .hasStaticResultTypes = true,
                          .flops = firstTimesLast,
                          .shardingRule = mv});
  table.add({"aten.addmv"}, {.isSumOverReduceFactors = true,
                             .addend = "self",
                             .addendScale = "beta",
                             .hasStaticResultTypes = true,
                             .flops = secondTimesLast,
                             .shardingRule = addmv});
  table.add({"aten.outer", "aten.ger"}, {.hasStaticResultTypes = true, .shardingRule = outer});
  table.add({"aten.matmul"}, {.isContraction = true,
                              .isSumOverReduceFactors = true,
                              .hasStaticResultTypes = true,
                              .flops = firstTimesLast,
                              .gemm = firstBySecond,
                              .workspaceBytes = matmulWorkspace,
                              .shardingRule = matmul});
  table.add({"aten.einsum"}, {.isContraction = true,
                              .isSumOverReduceFactors = true,
                              .hasStaticResultTypes = true,
                              .flops = einsumFlops,
                              .shardingRule = einsumOf});
  table.add({"quantized.linear", "quantized.linear_relu"},
            {.flops = firstTimesLast, .shardingRule = quantizedLinear});
  // Quantization uses one scale for all rows, so no dimension can be sharded.
  table.add({"quantized.linear_dynamic", "quantized.linear_relu_dynamic"}, {.flops = firstTimesLast});
  table.add({"aten._make_per_tensor_quantized_tensor", "aten._make_per_channel_quantized_tensor",
             "quantized.linear_prepack"},
            {.prepacksWeights = true});
  table.add({"aten._transformer_encoder_layer_fwd"},
            {.hasStaticResultTypes = true, .flops = encoderLayerFlops});
  // Rows are sorted by expert, so an index does not determine its expert.
  table.add({"aten._grouped_mm"}, {.isContraction = true,
                                   .isSumOverReduceFactors = true,
                                   .hasStaticResultTypes = true,
                                   .permutationRole = PermutationRole::Group,
                                   .flops = firstTimesLast,
                                   .shardingRule = groupedProduct});
  table.add({"aten.scaled_dot_product_attention"}, {.isContraction = true,
                                                    .widerArgument = "attn_mask",
                                                    .hasStaticResultTypes = true,
                                                    .dropProbability = "dropout_p",
                                                    .flops = attentionFlops,
                                                    .gemm = attentionGemm,
                                                    .workspaceBytes = attentionWorkspace,
                                                    .shardingRule = attention});
  const auto flash = {StringRef("aten._scaled_dot_product_flash_attention_for_cpu")};
  const auto flashBackward = {StringRef("aten._scaled_dot_product_flash_attention_for_cpu_backward")};
  table.set(&OpSemantics::flops, attentionFlops, flash);
  table.set(&OpSemantics::gemm, attentionGemm, flash);
  table.set(&OpSemantics::flops, attentionGradientFlops, flashBackward);
  table.set(&OpSemantics::gemm, attentionGemm, flashBackward);
  table.set(&OpSemantics::shardingRule, flashAttention, flash);
  table.set(&OpSemantics::shardingRule, flashAttentionBackward, flashBackward);
}

} // namespace cleave
