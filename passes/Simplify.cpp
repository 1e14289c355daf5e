//===- Simplify.cpp - MLIR's simplifications ----------------------------===//
#include "passes/Simplify.h"
#include "ir/ParkedObserves.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace cleave {

namespace {
/// A pass with the name and the effect of one of MLIR's.
template <typename Own> struct Simplification : PassWrapper<Own, OperationPass<>> {
  StringRef getArgument() const final { return Own::kName; }
  StringRef getDescription() const final { return Own::kSummary; }
};

struct Canonicalize : Simplification<Canonicalize> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Canonicalize)
  static constexpr llvm::StringLiteral kName = "canonicalize", kSummary = "Canonicalize operations";

  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet all(context);
    for (Dialect *dialect : context->getLoadedDialects())
      dialect->getCanonicalizationPatterns(all);
    for (RegisteredOperationName op : context->getRegisteredOperations())
      op.getCanonicalizationPatterns(all, context);
    patterns = std::make_shared<FrozenRewritePatternSet>(std::move(all));
    return success();
  }

  void runOnOperation() override {
    ParkedObserves parked(getOperation());
    GreedyRewriteConfig config;
    config.useTopDownTraversal = true;
    config.enableRegionSimplification = GreedySimplifyRegionLevel::Normal;
    config.listener = &parked;
    // As in MLIR's pass: not to converge is no failure.
    (void)applyPatternsAndFoldGreedily(getOperation(), *patterns, config);
  }

  std::shared_ptr<const FrozenRewritePatternSet> patterns;
};

struct Cse : Simplification<Cse> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Cse)
  static constexpr llvm::StringLiteral kName = "cse", kSummary = "Eliminate common sub-expressions";

  void runOnOperation() override {
    ParkedObserves parked(getOperation());
    IRRewriter rewriter(&getContext(), &parked);
    bool isChanged = false;
    eliminateCommonSubExpressions(rewriter, getAnalysis<DominanceInfo>(), getOperation(), &isChanged);
    if (!isChanged)
      return markAllAnalysesPreserved();
    markAnalysesPreserved<DominanceInfo, PostDominanceInfo>();
  }
};
} // namespace

std::unique_ptr<Pass> createCanonicalize() { return std::make_unique<Canonicalize>(); }
std::unique_ptr<Pass> createCse() { return std::make_unique<Cse>(); }

} // namespace cleave
