//===- StripBoundaries.cpp - Removes boundaries nobody captures -----------===//
#include "ir/autograd/Differentiate.h"
#include "passes/Passes.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_STRIPBOUNDARIES
#include "passes/Passes.h.inc"

namespace {
struct StripBoundaries : impl::StripBoundariesBase<StripBoundaries> {
  using StripBoundariesBase::StripBoundariesBase;

  void runOnOperation() override {
    SmallVector<llvm::GlobPattern> patterns;
    for (const std::string &text : keep) {
      auto pattern = llvm::GlobPattern::create(text);
      if (!pattern) {
        getOperation().emitError() << "pattern \"" << text << "\": " << llvm::toString(pattern.takeError());
        return signalPassFailure();
      }
      patterns.push_back(std::move(*pattern));
    }
    getOperation().walk([&](BoundaryOp boundary) {
      if (llvm::any_of(patterns, [&](auto &pattern) { return pattern.match(boundary.getPath()); }))
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
