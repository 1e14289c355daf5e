//===- RewriteIdioms.cpp - Sequences to one operator ----------------------===//
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/Passes.h"
#include "passes/idioms/Idioms.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_REWRITEIDIOMS
#include "passes/Passes.h.inc"

namespace {
struct RewriteIdioms : impl::RewriteIdiomsBase<RewriteIdioms> {
  using RewriteIdiomsBase::RewriteIdiomsBase;
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    addTanhGelu(patterns);
    if (norms)
      addRmsNorm(patterns);
    addRotary(patterns);
    addAttention(patterns);
    addGroupedAttention(patterns);
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace

} // namespace cleave
