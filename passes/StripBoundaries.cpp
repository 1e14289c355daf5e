//===- StripBoundaries.cpp - Removes boundaries nobody captures -----------===//
#include "ir/autograd/Differentiate.h"
#include "passes/NamePatterns.h"
#include "passes/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_STRIPBOUNDARIES
#include "passes/Passes.h.inc"

namespace {
struct StripBoundaries : impl::StripBoundariesBase<StripBoundaries> {
  using StripBoundariesBase::StripBoundariesBase;

  void runOnOperation() override {
    auto patterns = NamePatterns::parse(getOperation(), keep);
    if (failed(patterns))
      return signalPassFailure();
    getOperation().walk([&](BoundaryOp boundary) {
      if (patterns->match(boundary.getPath()))
        return;
      boundary.replaceAllUsesWith(boundary.getValue());
      boundary.erase();
    });
    if (!keepGradientStops)
      removeGradientStops(getOperation());
  }
};
} // namespace

} // namespace cleave
