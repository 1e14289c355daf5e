//===- Gradients.cpp - Values saved for backward passes -------------------===//
//
// After PyTorch's tools/autograd/derivatives.yaml. Views and casts save nothing without an entry here; any
// other operator without an entry saves its operands.
//
//===----------------------------------------------------------------------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"

using namespace mlir;

namespace cleave {

/// Bytes of dropout's mask: one bool per element.
static int64_t maskBytes(OperatorOp op, const ExampleShapes &shapes) {
  return shapes.elementsOf(op->getResult(0));
}

/// Bytes of `count` numbers of float32, or of the operand's dtype if that is wider.
static int64_t statistics(OperatorOp op, int64_t count) {
  auto type = dyn_cast<ShapedType>(op->getOperand(0).getType());
  return count * std::max<int64_t>(4, type ? elementBytes(type.getElementType()) : 0);
}

/// Elements of the first operand divided by those of the dimensions `shape`.
static int64_t rowsOf(OperatorOp op, const ExampleShapes &shapes) {
  int64_t elements = shapes.elementsOf(op->getOperand(0));
  auto normalized = constantInts(op, "normalized_shape");
  auto shape = shapes.shapeOf(op->getOperand(0));
  if (!normalized || !shape || normalized->size() > shape->size())
    return 0;
  for (int64_t size : ArrayRef<int64_t>(*shape).take_back(normalized->size()))
    elements /= std::max<int64_t>(size, 1);
  return elements;
}

/// Mean and deviation of each row.
static int64_t rowStatistics(OperatorOp op, const ExampleShapes &shapes) {
  return statistics(op, 2 * rowsOf(op, shapes));
}

/// A number per row and, for a weight's gradient, the normalised input.
static int64_t rmsStatistics(OperatorOp op, const ExampleShapes &shapes) {
  const bool hasWeight = isTensorLike(op.getArgument("weight").getType());
  return statistics(op, rowsOf(op, shapes) + (hasWeight ? shapes.elementsOf(op->getOperand(0)) : 0));
}

/// Statistics of the batch; in evaluation, the model's own are read.
static int64_t channelStatistics(OperatorOp op, const ExampleShapes &shapes) {
  auto shape = shapes.shapeOf(op->getOperand(0));
  if (constantInt(op, "training") == 0)
    return 0;
  return shape && shape->size() > 1 ? statistics(op, 2 * (*shape)[1]) : 0;
}

/// Statistics of each sample's groups or channels.
static int64_t groupStatistics(OperatorOp op, const ExampleShapes &shapes) {
  auto shape = shapes.shapeOf(op->getOperand(0));
  if (!shape || shape->size() < 2)
    return 0;
  return statistics(op, 2 * (*shape)[0] * constantInt(op, "num_groups").value_or((*shape)[1]));
}

/// The index of each window's maximum.
static int64_t windowPositions(OperatorOp op, const ExampleShapes &shapes) {
  return sizeof(int64_t) * shapes.elementsOf(op->getResult(0));
}

/// The logarithm of each query's sum, per head; and a boolean mask converted to numbers.
static int64_t attentionBytes(OperatorOp op, const ExampleShapes &shapes) {
  auto query = shapes.shapeOf(op.getArgument("query"));
  if (!query || query->empty() || query->back() == 0)
    return 0;
  auto mask = dyn_cast<ShapedType>(op.getArgument("attn_mask").getType());
  const bool isBool = mask && mask.getElementType().isInteger(1);
  const int64_t elements = shapes.elementsOf(op.getArgument("query"));
  const int64_t maskBytes = isBool && elements ? shapes.elementsOf(op.getArgument("attn_mask")) *
                                                     (shapes.bytesOf(op.getArgument("query")) / elements)
                                               : 0;
  return statistics(op, elements / query->back()) + maskBytes;
}

/// Logarithms of probabilities.
static int64_t logProbabilities(OperatorOp op, const ExampleShapes &shapes) {
  return shapes.bytesOf(op->getOperand(0));
}

static void addElementwiseGradients(SemanticsTable &table) {
  table.saves(SavedForBackward::PassThrough,
              {"aten.add", "aten.sub", "aten.rsub", "aten.clone", "aten.copy", "aten.type_as"});
  table.saves(SavedForBackward::Nothing, {"aten.neg", "aten.fill", "aten.zero", "aten.floor", "aten.ceil",
                                          "aten.round", "aten.trunc", "aten.sign", "aten.real", "aten.imag"});
  table.saves(SavedForBackward::Result,
              {"aten.relu", "aten.reciprocal", "aten.exp", "aten.exp2", "aten.expm1", "aten.sqrt",
               "aten.rsqrt", "aten.tan", "aten.tanh", "aten.sigmoid"});
  table.saves(SavedForBackward::First,
              {"aten.abs",         "aten.relu6",      "aten.clamp",       "aten.clamp_min", "aten.clamp_max",
               "aten.square",      "aten.hardtanh",   "aten.leaky_relu",  "aten.threshold", "aten.hardswish",
               "aten.hardsigmoid", "aten.nan_to_num", "aten.log",         "aten.log2",      "aten.log10",
               "aten.log1p",       "aten.sin",        "aten.cos",         "aten.silu",      "aten.gelu",
               "aten.elu",         "aten.selu",       "aten.celu",        "aten.mish",      "aten.softplus",
               "aten.erf",         "aten.erfinv",     "aten.atan",        "aten.asin",      "aten.acos",
               "aten.sinh",        "aten.cosh",       "aten.log_sigmoid", "aten.logit"});
  table.saves(SavedForBackward::Multiplicands, {"aten.mul", "aten.div", "aten.true_divide"});
  table.saves(SavedForBackward::NonFloatOperands,
              {"aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar",
               "aten.masked_fill"});
  table.saves(SavedForBackward::Nothing,
              {"aten.dropout", "aten.feature_dropout", "aten.alpha_dropout", "aten.feature_alpha_dropout"},
              maskBytes);
  table.saves(SavedForBackward::NonFloatResults, {"aten.native_dropout"});
  table.saves(SavedForBackward::NoGradient,
              {"aten.zeros_like", "aten.ones_like", "aten.full_like", "aten.bernoulli", "aten.rand_like",
               "aten.randn_like", "aten.detach", "aten.floor_divide"});
}

static void addReductionGradients(SemanticsTable &table) {
  table.saves(SavedForBackward::Nothing, {"aten.sum", "aten.mean", "aten.cumsum"});
  table.saves(SavedForBackward::FirstAndResult,
              {"aten.amax", "aten.amin", "aten.prod", "aten.std", "aten.norm", "aten.linalg_vector_norm",
               "aten.logsumexp", "aten.cumprod"});
  table.saves(SavedForBackward::First,
              {"aten.var", "aten.glu", "aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d",
               "aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten.adaptive_avg_pool3d"});
  table.saves(SavedForBackward::NonFloatResults,
              {"aten.max", "aten.min", "aten.sort", "aten.topk", "aten.median"});
  table.saves(SavedForBackward::Result,
              {"aten.softmax", "aten._softmax", "aten.log_softmax", "aten._log_softmax"});
  table.saves(SavedForBackward::NonFloatOperands, {"aten.cross_entropy_loss"}, logProbabilities);
  table.saves(SavedForBackward::First, {"aten.layer_norm", "aten.native_layer_norm"}, rowStatistics);
  table.saves(SavedForBackward::First, {"aten.rms_norm"}, rmsStatistics);
  table.saves(SavedForBackward::First, {"aten.batch_norm", "aten._native_batch_norm_legit_functional"},
              channelStatistics);
  table.saves(SavedForBackward::First, {"aten.group_norm", "aten.instance_norm"}, groupStatistics);
  table.saves(SavedForBackward::First,
              {"aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d", "aten.max_pool1d_with_indices",
               "aten.max_pool2d_with_indices", "aten.max_pool3d_with_indices", "aten.adaptive_max_pool1d",
               "aten.adaptive_max_pool2d", "aten.adaptive_max_pool3d"},
              windowPositions);
  table.saves(SavedForBackward::Nothing,
              {"aten.upsample_nearest1d", "aten.upsample_nearest2d", "aten.upsample_nearest3d",
               "aten._upsample_nearest_exact1d", "aten._upsample_nearest_exact2d",
               "aten._upsample_nearest_exact3d", "aten.upsample_linear1d", "aten.upsample_bilinear2d",
               "aten.upsample_trilinear3d", "aten.upsample_bicubic2d", "aten._upsample_bilinear2d_aa",
               "aten._upsample_bicubic2d_aa", "aten.pixel_shuffle"});
}

/// Operators without an entry of their own, that models and PyTorch's formulas for gradients call, and that
/// have no meta kernel in C++.
static void addStaticResultTypes(SemanticsTable &table) {
  table.set(&OpSemantics::hasStaticResultTypes, true,
            {"aten._adaptive_avg_pool2d",
             "aten._adaptive_avg_pool3d",
             "aten._cdist_forward",
             "aten._native_batch_norm_legit",
             "aten._pdist_forward",
             "aten._prelu_kernel",
             "aten._trilinear",
             "aten.addbmm",
             "aten.binary_cross_entropy",
             "aten.binary_cross_entropy_with_logits",
             "aten.cdist",
             "aten.channel_shuffle",
             "aten.col2im",
             "aten.cummin",
             "aten.fliplr",
             "aten.flipud",
             "aten.fmax",
             "aten.fmin",
             "aten.grid_sampler",
             "aten.grid_sampler_2d",
             "aten.grid_sampler_3d",
             "aten.huber_loss",
             "aten.im2col",
             "aten.kthvalue",
             "aten.l1_loss",
             "aten.ldexp",
             "aten.linspace",
             "aten.logcumsumexp",
             "aten.logical_and",
             "aten.logical_not",
             "aten.logical_or",
             "aten.logical_xor",
             "aten.masked_scatter",
             "aten.mkldnn_rnn_layer",
             "aten.mode",
             "aten.multi_margin_loss",
             "aten.multilabel_margin_loss",
             "aten.nansum",
             "aten.native_channel_shuffle",
             "aten.nll_loss",
             "aten.nll_loss2d",
             "aten.nll_loss_nd",
             "aten.put",
             "aten.rot90",
             "aten.std_mean",
             "aten.take",
             "aten.trace",
             "aten.var_mean"});
}

/// copy(self, src): src in the dtype and shape of self.
static SmallVector<Value> copied(OperatorOp op, OpBuilder &builder) {
  Value self = op->getOperand(0);
  auto like = [&](StringRef name, Value value) {
    return OperatorOp::create(builder, op->getLoc(), name, {value, self},
                              UnknownTensorType::get(builder.getContext()))
        ->getResult(0);
  };
  return {like("aten.expand_as", like("aten.type_as", op->getOperand(1)))};
}

/// _weight_norm(v, g, dim), whose fused form plans may not call: v · g / ‖v‖.
static SmallVector<Value> weightNormed(OperatorOp op, OpBuilder &builder) {
  auto call = [&](StringRef name, ValueRange operands) {
    return OperatorOp::create(builder, op->getLoc(), name, operands,
                              UnknownTensorType::get(builder.getContext()))
        ->getResult(0);
  };
  Value two = builder.create<ConstantOp>(op->getLoc(), builder.getI64Type(), builder.getI64IntegerAttr(2));
  Value norm = call("aten.norm_except_dim", {op->getOperand(0), two, op->getOperand(2)});
  return {call("aten.mul.Tensor", {op->getOperand(0), call("aten.div.Tensor", {op->getOperand(1), norm})})};
}

void addGradients(SemanticsTable &table) {
  addStaticResultTypes(table);
  table.set(&OpSemantics::dropProbability, llvm::StringLiteral("p"), {"aten.dropout", "aten.native_dropout"});
  table.set(&OpSemantics::dropProbability, llvm::StringLiteral("dropout_p"),
            {"aten._scaled_dot_product_flash_attention_for_cpu"});
  table.set(&OpSemantics::differentiableForm, copied, {"aten.copy"});
  table.set(&OpSemantics::differentiableForm, weightNormed, {"aten._weight_norm"});
  addElementwiseGradients(table);
  addReductionGradients(table);
  table.saves(SavedForBackward::Multiplicands, {"aten.linear",
                                                "aten.addmm",
                                                "aten.mm",
                                                "aten.bmm",
                                                "aten.baddbmm",
                                                "aten.dot",
                                                "aten.vdot",
                                                "aten.mv",
                                                "aten.addmv",
                                                "aten.outer",
                                                "aten.ger",
                                                "aten.matmul",
                                                "aten.einsum",
                                                "aten._convolution",
                                                "aten.convolution",
                                                "aten._convolution_mode",
                                                "aten.conv1d",
                                                "aten.conv2d",
                                                "aten.conv3d",
                                                "aten.conv_transpose1d",
                                                "aten.conv_transpose2d",
                                                "aten.conv_transpose3d"});
  table.saves(SavedForBackward::Attention, {"aten.scaled_dot_product_attention"}, attentionBytes);
  table.saves(SavedForBackward::NonFloatOperands,
              {"aten.embedding", "aten.index", "aten.index_select", "aten.gather", "aten.take_along_dim",
               "aten.scatter", "aten.scatter_add", "aten.index_put", "aten.index_add", "aten.index_copy",
               "aten.index_fill", "aten.masked_scatter", "aten.masked_select"});
  table.saves(SavedForBackward::Nothing,
              {"aten.cat", "aten.concat", "aten.stack", "aten.pad", "aten.constant_pad_nd",
               "aten.slice_scatter", "aten.select_scatter", "aten.meshgrid", "aten.broadcast_tensors"});
  table.saves(SavedForBackward::Nothing,
              {"aten.repeat_interleave", "aten.diff", "aten.roll", "aten.flip", "aten.tril", "aten.triu",
               "aten.repeat", "aten.tile", "aten.diagonal_scatter", "spmd.shard"});
  table.saves(SavedForBackward::NoGradient,
              {"aten.one_hot", "aten.bucketize", "aten.searchsorted", "aten.histc"});
}

} // namespace cleave
