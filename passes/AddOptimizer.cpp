//===- AddOptimizer.cpp - Makes a training step ---------------------------===//
#include "ir/autograd/AddOptimizer.h"
#include "ir/OperatorDialect.h"
#include "passes/NamePatterns.h"
#include "passes/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_ADDOPTIMIZER
#include "passes/Passes.h.inc"

namespace {
struct AddOptimizer : impl::AddOptimizerBase<AddOptimizer> {
  using AddOptimizerBase::AddOptimizerBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    registerOperatorDialects(registry);
    AddOptimizerBase::getDependentDialects(registry);
  }

  void runOnOperation() override {
    auto options = parseOptimizer(optimizer);
    if (!options) {
      getOperation().emitError() << llvm::toString(options.takeError());
      return signalPassFailure();
    }
    auto patterns = NamePatterns::parse(getOperation(), noDecay);
    if (failed(patterns) || failed(patterns->checkMatches(getOperation(), "no-decay")))
      return signalPassFailure();
    options->usesWeightDecay = [&](StringRef name) { return !patterns->match(name); };
    if (clipNorm > 0)
      options->clipNorm = clipNorm;
    options->ranks = ranks;
    if (failed(addOptimizer(getOperation(), *options)))
      signalPassFailure();
  }
};
} // namespace

} // namespace cleave
