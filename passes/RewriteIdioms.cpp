//===- RewriteIdioms.cpp - Fuses operator sequences -----------------------===//
#include "ir/ParkedObserves.h"
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
    static constexpr std::pair<StringLiteral, void (*)(RewritePatternSet &)> kIdioms[] = {
        {"tanh-gelu", addTanhGelu},
        {"rms-norm", addRmsNorm},
        {"rotary", addRotary},
        {"attention", addAttention},
        {"grouped-attention", addGroupedAttention}};
    RewritePatternSet patterns(&getContext());
    for (auto [name, add] : kIdioms)
      if (only.empty() || llvm::is_contained(only, name))
        add(patterns);
    ParkedObserves parked(getOperation());
    GreedyRewriteConfig config;
    config.listener = &parked;
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns), config)))
      signalPassFailure();
  }
};
} // namespace

} // namespace cleave
