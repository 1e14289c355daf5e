//===- Attention.cpp - Softmax of products to attention -------------------===//
//
//   matmul(softmax(matmul(q, kᵀ) · scale + mask), v)     Vaswani et al. 2017
//
// to `aten.scaled_dot_product_attention(q, k, v, mask, 0, false, scale)`. The scale may be a product or
// quotient of scores, queries or keys, or absent; masks are tensors that are added, or a `where` or
// `masked_fill` of a number that swallows any score it is added to, as the least float32 does. A fill of −∞
// stays as it is: a row of nothing else is NaN there and zero in ATen's kernel, as it is with a tensor of −∞
// that is added, which nobody can see here. Of float32 and float64 only: in narrower types the kernel rounds
// less often. Weights that somebody else takes (output_attentions) keep the sequence.
//
// 1.3 × as fast at 128 positions, 2.9 to 3.3 × at 1024, 2 × at 16, 0.9 × at 31; and without the scores'
// memory, twice.
//
//===----------------------------------------------------------------------===//
#include "ir/semantics/OpSemantics.h"
#include "ir/semantics/Shapes.h"
#include "passes/idioms/Idioms.h"

using namespace mlir;

namespace cleave {

namespace {
/// A fill of scores, as the number that is added to them for the same effect.
struct Fill {
  Value condition;
  double whereTrue, whereFalse;
};

/// The scores that a softmax is taken of.
struct Scores {
  Match match;
  Value query, transposedKey;
  double scale = 1;
  std::optional<Fill> fill;
  /// Masks added to the scaled and filled product, the last one first.
  SmallVector<Value> masks;
};

/// Layers from the softmax down to the product; they can only occur in this order.
enum class Layer { Mask, Fill, Scale };
} // namespace

/// A product with, or quotient by, a number: the other operand, and the factor.
static std::optional<NumberAndValue> readScale(Value value, Match &match) {
  OperatorOp op = match.producerOf(value, {"aten.mul", "aten.div"});
  auto parts = op ? withNumber(op) : std::nullopt;
  if (!parts || !isSameShape(parts->value.getType(), value.getType()) || parts->number == 0)
    return std::nullopt;
  if (op.getBaseName() == "aten.mul")
    return parts;
  // Neither a number over scores nor a quotient that is rounded.
  bool isPlain = parts->value == op->getOperand(0) && !op.getArgument("rounding_mode");
  return isPlain ? std::optional(NumberAndValue{1 / parts->number, parts->value}) : std::nullopt;
}

/// True if the kernel reads a mask of this rank: of scores, or of scores per head.
static bool canMask(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && (type.getRank() == 4 || type.getRank() == 2);
}

/// The scores below a `where` or `masked_fill`.
static Value readFill(Value value, Scores &scores) {
  OperatorOp op = scores.match.producerOf(value, {"aten.where", "aten.masked_fill"});
  if (!op || op->getNumOperands() != 3)
    return {};
  bool isWhere = op.getBaseName() == "aten.where";
  Value condition = op->getOperand(isWhere ? 0 : 1), inner = op->getOperand(isWhere ? 1 : 0);
  auto number = numberOf(op->getOperand(2));
  // Adding something smaller than half of the last digit of 1e30 does not change it.
  bool swallows = number && *number <= -1e30 && std::isfinite(*number);
  auto type = floatTensor(value);
  if (!swallows || !canMask(condition) || !isSameShape(inner.getType(), type) ||
      !type.getElementType().isF32() ||
      !cast<RankedTensorType>(condition.getType()).getElementType().isInteger(1))
    return {};
  scores.fill = isWhere ? Fill{condition, 0, *number} : Fill{condition, *number, 0};
  return inner;
}

static std::optional<Scores> readScores(Value value, Scores scores, Layer layer) {
  if (!floatTensor(value))
    return std::nullopt;
  if (OperatorOp product = scores.match.producerOf(value, {"aten.matmul"})) {
    scores.query = product->getOperand(0);
    scores.transposedKey = product->getOperand(1);
    return scores;
  }
  Scores scaled = scores;
  if (auto scale = readScale(value, scaled.match)) {
    scaled.scale *= scale->number;
    return readScores(scale->value, scaled, Layer::Scale);
  }
  if (layer != Layer::Mask)
    return std::nullopt;
  Scores filled = scores;
  if (Value inner = readFill(value, filled))
    return readScores(inner, filled, Layer::Fill);
  OperatorOp sum = scores.match.producerOf(value, {"aten.add"});
  if (!sum || !isPlainSum(sum))
    return std::nullopt;
  for (unsigned side : {0, 1}) {
    Value inner = sum->getOperand(side), mask = sum->getOperand(1 - side);
    auto type = floatTensor(mask);
    if (!type || !canMask(mask) || type.getElementType() != floatTensor(value).getElementType() ||
        !isSameShape(inner.getType(), value.getType()))
      continue;
    Scores masked = scores;
    masked.masks.push_back(mask);
    if (auto found = readScores(inner, masked, Layer::Mask))
      return found;
  }
  return std::nullopt;
}

/// Takes out a factor by which the queries or keys were multiplied before.
static Value takeScale(Value operand, Scores &scores) {
  Match match = scores.match;
  auto scale = operand.hasOneUse() ? readScale(operand, match) : std::nullopt;
  if (!scale)
    return operand;
  scores.match = match;
  scores.scale *= scale->number;
  return scale->value;
}

/// The tensor that `value` is with its last two dimensions swapped; null if it is not made so.
static Value untransposed(Value value) {
  OperatorOp op = Match().producerOf(value, {"aten.transpose"});
  bool isLastTwo = op && op.getName() == "aten.transpose.int" &&
                   ((isDim(op, "dim0", -1, 4) && isDim(op, "dim1", -2, 4)) ||
                    (isDim(op, "dim0", -2, 4) && isDim(op, "dim1", -1, 4)));
  return isLastTwo ? op->getOperand(0) : Value();
}

/// True if ATen's fused kernel takes them: [b, h, s, d], [b, h, d, t] and [b, h, t, d], with dense rows.
static bool hasKernel(Value query, Value transposedKey, Value value) {
  auto q = floatTensor(query), k = floatTensor(transposedKey), v = floatTensor(value);
  if (!q || !k || !v || q.getRank() != 4 || k.getRank() != 4 || v.getRank() != 4)
    return false;
  bool isSameDType = q.getElementType() == k.getElementType() && q.getElementType() == v.getElementType();
  bool isSameBatch =
      isSameSize(q, 0, k, 0) && isSameSize(q, 0, v, 0) && isSameSize(q, 1, k, 1) && isSameSize(q, 1, v, 1);
  bool isSameRow = isSameSize(q, 3, k, 2) && isSameSize(q, 3, v, 3) && isSameSize(k, 3, v, 2);
  return isSameDType && isSameBatch && isSameRow && hasUnitStride(q) && hasUnitStride(k, 1) &&
         hasUnitStride(v);
}

/// True if the call swaps the second and the third dimension. The kernel's result has heads after positions
/// in memory, so it is row-major once swapped.
static bool swapsHeads(OperatorOp op) {
  auto isDims = [&](ArrayRef<int64_t> found, ArrayRef<int64_t> wanted) {
    return llvm::equal(found, wanted, [](int64_t one, int64_t other) { return (one + 4) % 4 == other; });
  };
  auto first = constantInt(op, "dim0"), second = constantInt(op, "dim1");
  if (first && second)
    return isDims({*first, *second}, {1, 2}) || isDims({*first, *second}, {2, 1});
  auto order = constantInts(op, "dims");
  return order && isDims(*order, {0, 2, 1, 3});
}

/// True if all users of the product accept the kernel's layout, too: they accept any, or swap the dimensions
/// and then need a row-major tensor or a copy of one.
static bool isTakenInAnyLayout(Value value, bool isSwapped = false) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    auto op = dyn_cast<OperatorOp>(user);
    if (!op)
      return false;
    const OpSemantics &semantics = semanticsOf(op.getName());
    bool isRowMajor = isSwapped && semantics.mayBeView && !semantics.isCast;
    return semantics.givesContiguous || isRowMajor ||
           (!isSwapped && semantics.permutes && swapsHeads(op) &&
            isTakenInAnyLayout(op->getResult(0), /*isSwapped=*/true));
  });
}

namespace {
struct Attention : RewritePattern {
  explicit Attention(MLIRContext *context) : RewritePattern("aten.matmul", 1, context) {}

  LogicalResult matchAndRewrite(Operation *root, PatternRewriter &rewriter) const override {
    auto scores = readSoftmax(root->getOperand(0));
    if (!scores)
      return failure();
    scores->query = takeScale(scores->query, *scores);
    scores->transposedKey = takeScale(scores->transposedKey, *scores);
    if (!hasKernel(scores->query, scores->transposedKey, root->getOperand(1)) ||
        !scores->match.onlyRootEscapes(root))
      return failure();
    OperatorBuilder make(rewriter, root);
    Type type = root->getResult(0).getType();
    Value key = untransposed(scores->transposedKey);
    if (!key)
      key = make.call("aten.transpose.int", {scores->transposedKey, make.integer(-2), make.integer(-1)});
    Value result = make.call("aten.scaled_dot_product_attention",
                             {scores->query, key, root->getOperand(1), makeMask(*scores, make), make.real(0),
                              make.boolean(false), make.real(scores->scale), make.boolean(false)},
                             type);
    if (!isTakenInAnyLayout(root->getResult(0)))
      result = make.call("aten.contiguous", {result, make.integer(0)}, type);
    rewriter.replaceOp(root, result);
    return success();
  }

  static std::optional<Scores> readSoftmax(Value value) {
    Scores scores;
    OperatorOp softmax = scores.match.producerOf(value, {"aten.softmax"});
    if (!softmax || softmax.getName() != "aten.softmax.int" || !isDim(softmax, "dim", -1, 4) ||
        !isSameShape(softmax->getOperand(0).getType(), value.getType()))
      return std::nullopt;
    return readScores(softmax->getOperand(0), scores, Layer::Mask);
  }

  static Value makeMask(const Scores &scores, OperatorBuilder &make) {
    Value mask;
    if (scores.fill)
      mask = make.call("aten.where.Scalar", {scores.fill->condition, make.real(scores.fill->whereTrue),
                                             make.real(scores.fill->whereFalse)});
    for (Value added : llvm::reverse(scores.masks))
      mask = mask ? make.call("aten.add.Tensor", {mask, added, make.integer(1)}) : added;
    return mask ? mask : make.none();
  }
};
} // namespace

void addAttention(RewritePatternSet &patterns) { patterns.add<Attention>(patterns.getContext()); }

} // namespace cleave
