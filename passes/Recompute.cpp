//===- Recompute.cpp - Computes activations again -------------------------===//
#include "ir/autograd/Recompute.h"
#include "ir/OperatorDialect.h"
#include "passes/NamePatterns.h"
#include "passes/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_RECOMPUTE
#include "passes/Passes.h.inc"

namespace {
struct Recompute : impl::RecomputeBase<Recompute> {
  using RecomputeBase::RecomputeBase;

  /// The shortest part of the path, from its beginning, that matches.
  static std::string matching(const NamePatterns &patterns, StringRef path) {
    for (size_t end = 0; end < path.size();) {
      end = std::min(path.find('.', end + 1), path.size());
      if (patterns.match(path.take_front(end)))
        return path.take_front(end).str();
    }
    return "";
  }

  void runOnOperation() override {
    auto patterns = NamePatterns::parse(getOperation(), modules);
    if (failed(patterns))
      return signalPassFailure();
    bool isFound = patterns->empty();
    auto segmentOf = [&](StringRef path) {
      const std::string segment = patterns->empty() ? moduleItemSegment(path) : matching(*patterns, path);
      isFound |= !segment.empty();
      return segment;
    };
    if (failed(recompute(getOperation(), segmentOf)))
      return signalPassFailure();
    if (!isFound) {
      getOperation().emitError() << "modules to recompute: found no module whose path matches";
      signalPassFailure();
    }
  }
};
} // namespace

} // namespace cleave
