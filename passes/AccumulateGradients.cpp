//===- AccumulateGradients.cpp - Sums over micro-batches ------------------===//
#include "ir/autograd/AccumulateGradients.h"
#include "passes/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_ACCUMULATEGRADIENTS
#include "passes/Passes.h.inc"

namespace {
struct AccumulateGradients : impl::AccumulateGradientsBase<AccumulateGradients> {
  void runOnOperation() override {
    if (failed(accumulateGradients(getOperation())))
      signalPassFailure();
  }
};
} // namespace

} // namespace cleave
