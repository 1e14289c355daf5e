//===- Differentiate.cpp - Adds gradients to the results ------------------===//
#include "ir/autograd/Differentiate.h"
#include "ir/OperatorDialect.h"
#include "passes/Passes.h"
#include "llvm/Support/GlobPattern.h"

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

  using Patterns = SmallVector<llvm::GlobPattern>;

  LogicalResult parse(ArrayRef<std::string> texts, Patterns &patterns) {
    for (const std::string &text : texts) {
      auto pattern = llvm::GlobPattern::create(text);
      if (!pattern)
        return getOperation().emitError()
               << "pattern \"" << text << "\": " << llvm::toString(pattern.takeError());
      patterns.push_back(std::move(*pattern));
    }
    return success();
  }

  /// Fails if a pattern matches no parameter.
  LogicalResult checkMatches(const Patterns &patterns) {
    for (auto [text, pattern] : llvm::zip(trainable, patterns)) {
      std::string example;
      bool isFound = false;
      getOperation().walk([&](ParamOp param) {
        if (param.getRole() != "parameter")
          return;
        example = param.getName().str();
        isFound |= pattern.match(param.getName());
        for (Attribute alias : param.getAliases() ? param.getAliases()->getValue() : ArrayRef<Attribute>())
          isFound |= pattern.match(cast<StringAttr>(alias).getValue());
      });
      if (!isFound)
        return getOperation().emitError()
               << "trainable parameters: found \"" << text << "\", which matches none, "
               << (example.empty() ? "and the model has none"
                                   : "expected a name as " + example + ", with * and ?");
    }
    return success();
  }

  static bool matches(const Patterns &patterns, StringRef name) {
    return llvm::any_of(patterns, [&](auto &pattern) { return pattern.match(name); });
  }

  void runOnOperation() override {
    Patterns trained, wanted;
    if (failed(parse(trainable, trained)) || failed(checkMatches(trained)) || failed(parse(inputs, wanted)))
      return signalPassFailure();
    DerivativeOptions options;
    options.loss = loss;
    if (!trained.empty())
      options.isTrainable = [&](StringRef name) { return matches(trained, name); };
    options.wantsInputGradient = [&](StringRef name) { return matches(wanted, name); };
    if (failed(differentiate(getOperation(), options)))
      signalPassFailure();
  }
};
} // namespace

} // namespace cleave
