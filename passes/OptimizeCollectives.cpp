//===- OptimizeCollectives.cpp - Fewer and smaller collectives ------------===//
#include "ir/OperatorDialect.h"
#include "ir/ParkedObserves.h"
#include "ir/semantics/OpSemantics.h"
#include "ir/semantics/Shapes.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_OPTIMIZECOLLECTIVES
#include "passes/Passes.h.inc"

/// The all-reduce that makes `value`, if `user` is the only user and in the same block; null otherwise.
static Operation *soleSum(Value value, Operation *user) {
  auto op = dyn_cast_or_null<OperatorOp>(value.getDefiningOp());
  bool isSole =
      op && op.getName() == "spmd.all_reduce" && value.hasOneUse() && op->getBlock() == user->getBlock();
  return isSole ? op.getOperation() : nullptr;
}

static Value makeCall(PatternRewriter &rewriter, Location loc, StringRef name, ValueRange operands,
                      Type type) {
  return OperatorOp::create(rewriter, loc, name, operands, type)->getResult(0);
}

namespace {
struct CollectivePattern : RewritePattern {
  CollectivePattern(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    auto call = dyn_cast<OperatorOp>(op);
    return call ? match(call, rewriter) : failure();
  }
  virtual LogicalResult match(OperatorOp op, PatternRewriter &rewriter) const = 0;
};

/// An addition of two tensors, the second one scaled.
static bool addsTensors(OperatorOp op) {
  return op.getArgument(semanticsOf(op.getName()).addScale) && isTensorLike(op->getOperand(1).getType());
}

/// sum(a) + sum(b) = sum(a + b): parallel layers, embeddings of tokens and positions.
struct MergeSums : CollectivePattern {
  using CollectivePattern::CollectivePattern;
  LogicalResult match(OperatorOp op, PatternRewriter &rewriter) const override {
    if (!addsTensors(op))
      return failure();
    Operation *left = soleSum(op->getOperand(0), op), *right = soleSum(op->getOperand(1), op);
    if (!left || !right)
      return failure();
    Value sum =
        makeCall(rewriter, op->getLoc(), op.getName(),
                 {left->getOperand(0), right->getOperand(0), op->getOperand(2)}, op->getResult(0).getType());
    rewriter.replaceOp(op,
                       makeCall(rewriter, op->getLoc(), "spmd.all_reduce", sum, op->getResult(0).getType()));
    return success();
  }
};

/// An addition without a scale.
static OperatorOp asAddition(Operation *op) {
  auto call = dyn_cast_or_null<OperatorOp>(op);
  const bool isPlain = call && addsTensors(call) && matchPattern(op->getOperand(2), m_One());
  return isPlain ? call : OperatorOp(nullptr);
}

/// (sum(a) + w) + sum(b) = (sum(a) + sum(b)) + w: moves a term out from between two all-reduces.
struct MoveSumsTogether : CollectivePattern {
  using CollectivePattern::CollectivePattern;
  LogicalResult match(OperatorOp op, PatternRewriter &rewriter) const override {
    if (!asAddition(op))
      return failure();
    for (unsigned side : {0, 1}) {
      Value sum = op->getOperand(side), one = op->getOperand(2);
      auto inner = soleSum(sum, op) ? soleAddition(op->getOperand(1 - side), op) : OperatorOp(nullptr);
      Type type = op->getResult(0).getType();
      for (unsigned innerSide : {0, 1})
        if (inner && leadsToSum(inner, innerSide, sum.getType(), type)) {
          Value met = inner->getOperand(innerSide), whole = inner->getOperand(1 - innerSide);
          Value both = makeCall(rewriter, op->getLoc(), op.getName(), {met, sum, one}, type);
          rewriter.replaceOp(op, makeCall(rewriter, op->getLoc(), op.getName(), {both, whole, one}, type));
          return success();
        }
    }
    return failure();
  }
  /// The addition that makes `value`, if `user` is the only user and in the same block; null otherwise.
  static OperatorOp soleAddition(Value value, Operation *user) {
    OperatorOp op = asAddition(value.getDefiningOp());
    return op && value.hasOneUse() && op->getBlock() == user->getBlock() ? op : OperatorOp(nullptr);
  }
  static bool hasSum(Value value, Operation *user) {
    OperatorOp op = soleAddition(value, user);
    return soleSum(value, user) || (op && (hasSum(op->getOperand(0), op) || hasSum(op->getOperand(1), op)));
  }
  /// True if that operand, and not the other, leads to an all-reduce to which one of type `sum` may be added,
  /// through additions that then have the shape and dtype `type`.
  static bool leadsToSum(OperatorOp op, unsigned side, Type sum, Type type) {
    Value value = op->getOperand(side);
    if (hasSum(op->getOperand(1 - side), op) || (sum != type && value.getType() != type))
      return false;
    OperatorOp next = soleAddition(value, op);
    return soleSum(value, op) || (next && (leadsToSum(next, 0, sum, type) || leadsToSum(next, 1, sum, type)));
  }
};

/// A view of an all-reduce becomes an all-reduce of the view, which may merge with others.
struct SinkThroughViews : CollectivePattern {
  using CollectivePattern::CollectivePattern;
  LogicalResult match(OperatorOp op, PatternRewriter &rewriter) const override {
    const OpSemantics &semantics = semanticsOf(op.getName());
    // A view in another dtype reinterprets bits. The memory layout must stay as in the program.
    bool isView = (semantics.isView || semantics.mayBeView) && !semantics.isCast && !semantics.permutes &&
                  !semantics.givesContiguous && !op.getArgument("dtype") && op->getNumResults() == 1 &&
                  isTensorLike(op->getResult(0).getType()) && !copies(op);
    Operation *sum = isView ? soleSum(op->getOperand(0), op) : nullptr;
    auto hasMany = [](Value operand) { return isTensorLike(operand.getType()); };
    if (!sum || llvm::any_of(op->getOperands().drop_front(), hasMany) || takesOwnPart(op))
      return failure();
    SmallVector<Value> operands(op->getOperands());
    operands[0] = sum->getOperand(0);
    Value view = makeCall(rewriter, op->getLoc(), op.getName(), operands, op->getResult(0).getType());
    rewriter.replaceOp(
        op, makeCall(rewriter, sum->getLoc(), "spmd.all_reduce", view, op->getResult(0).getType()));
    return success();
  }
  /// True if the view has more elements than its operand, such as expand.
  static bool copies(OperatorOp op) {
    ExampleShapes shapes(op->getParentOfType<func::FuncOp>());
    return shapes.elementsOf(op->getResult(0)) > shapes.elementsOf(op->getOperand(0));
  }
  static bool takesOwnPart(OperatorOp op) {
    return llvm::any_of(op->getOperands(),
                        [](Value operand) { return operand.getDefiningOp<PerRankOp>() != nullptr; });
  }
};

/// Replaces an all-reduce of which each rank takes a part by a reduce-scatter.
struct ReduceScatter : CollectivePattern {
  using CollectivePattern::CollectivePattern;
  LogicalResult match(OperatorOp op, PatternRewriter &rewriter) const override {
    const OpSemantics &semantics = semanticsOf(op.getName());
    Value start = op.getArgument(semantics.rangeStart), ranges = op.getArgument(semantics.ranges);
    const bool takesPart = !semantics.collective && (start || ranges);
    Operation *sum = takesPart ? soleSum(op->getOperand(0), op) : nullptr;
    if (!sum)
      return failure();
    if (start)
      ranges = rangesOf(op->getLoc(), start, op.getArgument(semantics.rangeLength), rewriter);
    if (!ranges)
      return failure();
    rewriter.replaceOp(op, makeCall(rewriter, sum->getLoc(), "spmd.reduce_scatter",
                                    {sum->getOperand(0), op.getArgument("dim"), ranges},
                                    op->getResult(0).getType()));
    return success();
  }
  /// Start and length of a view as per-rank ranges; null if all ranks take the same range.
  static Value rangesOf(Location location, Value start, Value size, PatternRewriter &rewriter) {
    auto starts = start.getDefiningOp<PerRankOp>(), lengths = size.getDefiningOp<PerRankOp>();
    if (!starts)
      return {};
    Attribute length;
    matchPattern(size, m_Constant(&length));
    SmallVector<Attribute> all;
    for (auto [rank, own] : llvm::enumerate(starts.getValues()))
      all.push_back(rewriter.getArrayAttr({own, lengths ? lengths.getValues()[rank] : length}));
    return rewriter.create<PerRankOp>(location, ListType::get(rewriter.getContext(), rewriter.getI64Type()),
                                      rewriter.getArrayAttr(all));
  }
};

struct OptimizeCollectives : impl::OptimizeCollectivesBase<OptimizeCollectives> {
  void getDependentDialects(DialectRegistry &registry) const override { registerOperatorDialects(registry); }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<MergeSums, MoveSumsTogether, SinkThroughViews, ReduceScatter>(&getContext());
    ParkedObserves parked(getOperation(), /*keepsPartialSums=*/true);
    GreedyRewriteConfig config;
    config.listener = &parked;
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns), config)))
      signalPassFailure();
  }
};
} // namespace

} // namespace cleave
