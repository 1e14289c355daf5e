//===- Recompute.cpp - Activation recomputation ---------------------------===//
#include "ir/autograd/Recompute.h"
#include "ir/OperatorDialect.h"
#include "passes/NamePatterns.h"
#include "passes/Passes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_RECOMPUTE
#include "passes/Passes.h.inc"

/// Segment of what is in no list of modules, such as embeddings and the loss.
static constexpr llvm::StringLiteral kOutsideLists = "<outside lists>";

namespace {
struct Recompute : impl::RecomputeBase<Recompute> {
  using RecomputeBase::RecomputeBase;

  /// The shortest prefix of `path` that matches; empty if none does.
  static std::string shortestMatchingPrefix(const NamePatterns &patterns, StringRef path) {
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
    std::string example;
    auto segmentOf = [&](StringRef path) {
      example = path.size() > example.size() ? path.str() : example;
      std::string segment =
          patterns->empty() ? moduleListItemSegment(path) : shortestMatchingPrefix(*patterns, path);
      isFound |= !segment.empty();
      if (segment.empty() && patterns->empty() && kind != RecomputeKind::Full)
        segment = kOutsideLists;
      return segment;
    };
    if (failed(recompute(getOperation(), kind, segmentOf)))
      return signalPassFailure();
    if (!isFound) {
      getOperation().emitError() << "modules to recompute: found \"" << llvm::join(modules, "\", \"")
                                 << "\", which matches none, expected a module as " << example
                                 << ", with * and ?";
      signalPassFailure();
    }
  }
};
} // namespace

} // namespace cleave
