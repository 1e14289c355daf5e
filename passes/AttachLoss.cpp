//===- AttachLoss.cpp - Adds a loss to the results ------------------------===//
#include "ir/autograd/AttachLoss.h"
#include "ir/OperatorDialect.h"
#include "passes/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_ATTACHLOSS
#include "passes/Passes.h.inc"

namespace {
struct AttachLoss : impl::AttachLossBase<AttachLoss> {
  using AttachLossBase::AttachLossBase;

  // A function may call no operator yet.
  void getDependentDialects(DialectRegistry &registry) const override {
    registerOperatorDialects(registry);
    AttachLossBase::getDependentDialects(registry);
  }

  void runOnOperation() override {
    auto parsed = parseLoss(loss);
    if (!parsed) {
      getOperation().emitError() << llvm::toString(parsed.takeError());
      return signalPassFailure();
    }
    if (failed(attachLoss(getOperation(), *parsed)))
      signalPassFailure();
  }
};
} // namespace

} // namespace cleave
