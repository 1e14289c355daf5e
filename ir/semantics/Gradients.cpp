//===- Gradients.cpp - How operators are differentiated -------------------===//
#include "ir/semantics/SemanticsTable.h"
#include "ir/semantics/Shapes.h"

using namespace mlir;

namespace cleave {

/// Bytes of dropout's mask: one bool per element.
static int64_t maskBytes(OperatorOp op, const ExampleShapes &shapes) {
  return shapes.elementsOf(op->getResult(0));
}

/// Operators that models and PyTorch's derivatives call, that need no other entry, and that have no meta
/// kernel in C++.
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
             "aten.fliplr",
             "aten.flipud",
             "aten.fmax",
             "aten.fmin",
             "aten.grid_sampler",
             "aten.grid_sampler_2d",
             "aten.grid_sampler_3d",
             "aten.huber_loss",
             "aten.l1_loss",
             "aten.ldexp",
             "aten.linspace",
             "aten.logical_and",
             "aten.logical_not",
             "aten.logical_or",
             "aten.logical_xor",
             "aten.masked_scatter",
             "aten.mkldnn_rnn_layer",
             "aten.multi_margin_loss",
             "aten.multilabel_margin_loss",
             "aten.nll_loss",
             "aten.nll_loss2d",
             "aten.nll_loss_nd",
             "aten.put",
             "aten.rot90",
             "aten.take",
             "aten.trace"});
}

/// copy(self, src): src in the dtype and shape of self.
static SmallVector<Value> decomposeCopy(OperatorOp op, OpBuilder &builder) {
  Value self = op->getOperand(0);
  auto like = [&](StringRef name, Value value) {
    return OperatorOp::create(builder, op->getLoc(), name, {value, self},
                              UnknownTensorType::get(builder.getContext()))
        ->getResult(0);
  };
  return {like("aten.expand_as", like("aten.type_as", op->getOperand(1)))};
}

/// _weight_norm(v, g, dim), w = g · v / ‖v‖ (Salimans and Kingma 2016), in place of the fused operator, which
/// plans may not call.
static SmallVector<Value> decomposeWeightNorm(OperatorOp op, OpBuilder &builder) {
  auto call = [&](StringRef name, ValueRange operands) {
    return OperatorOp::create(builder, op->getLoc(), name, operands,
                              UnknownTensorType::get(builder.getContext()))
        ->getResult(0);
  };
  Value two = builder.create<ConstantOp>(op->getLoc(), builder.getI64Type(), builder.getI64IntegerAttr(2));
  Value norm = call("aten.norm_except_dim", {op->getOperand(0), two, op->getOperand(2)});
  return {call("aten.mul.Tensor", {op->getOperand(0), call("aten.div.Tensor", {op->getOperand(1), norm})})};
}

void addGradientSemantics(SemanticsTable &table) {
  addStaticResultTypes(table);
  table.set(&OpSemantics::dropProbability, llvm::StringLiteral("p"), {"aten.dropout", "aten.native_dropout"});
  table.set(&OpSemantics::dropProbability, llvm::StringLiteral("dropout_p"),
            {"aten._scaled_dot_product_flash_attention_for_cpu"});
  table.set(&OpSemantics::differentiableForm, decomposeCopy, {"aten.copy"});
  table.set(&OpSemantics::differentiableForm, decomposeWeightNorm, {"aten._weight_norm"});
  table.set(&OpSemantics::savedBytes, maskBytes,
            {"aten.dropout", "aten.feature_dropout", "aten.alpha_dropout", "aten.feature_alpha_dropout"});
  table.set(&OpSemantics::needsContiguousGradient, true, {"aten.scaled_dot_product_attention"});
  table.set(&OpSemantics::hasNoGradient, true,
            {"aten.zeros_like", "aten.ones_like", "aten.full_like", "aten.bernoulli", "aten.rand_like",
             "aten.randn_like", "aten.detach", "aten.floor_divide", "aten.one_hot", "aten.bucketize",
             "aten.searchsorted", "aten.histc"});
}

} // namespace cleave
