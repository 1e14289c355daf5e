//===- Differentiate.cpp - Adds gradients to the results ------------------===//
#include "ir/autograd/Differentiate.h"
#include "ir/OperatorDialect.h"
#include "passes/NamePatterns.h"
#include "passes/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/Passes.h.inc"

namespace {
struct Differentiate : impl::DifferentiateBase<Differentiate> {
  using DifferentiateBase::DifferentiateBase;

  // A function may call no operator yet.
  void getDependentDialects(DialectRegistry &registry) const override {
    registerOperatorDialects(registry);
    DifferentiateBase::getDependentDialects(registry);
  }

  void runOnOperation() override {
    auto trained = NamePatterns::parse(getOperation(), trainable);
    auto wanted = NamePatterns::parse(getOperation(), inputs);
    if (failed(trained) || failed(wanted) ||
        failed(trained->checkMatches(getOperation(), "trainable parameters")))
      return signalPassFailure();
    DerivativeOptions options;
    options.loss = loss;
    if (!trained->empty())
      options.isTrainable = [&](StringRef name) { return trained->match(name); };
    options.isForOptimizer = forOptimizer;
    options.wantsInputGradient = [&](StringRef name) { return wanted->match(name); };
    if (failed(differentiate(getOperation(), options)))
      signalPassFailure();
  }
};
} // namespace

} // namespace cleave
