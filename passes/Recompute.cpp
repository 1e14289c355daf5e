//===- Recompute.cpp - Activation recomputation ---------------------------===//
#include "ir/autograd/Recompute.h"
#include "ir/OperatorDialect.h"
#include "passes/NamePatterns.h"
#include "passes/Passes.h"
#include <set>

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

  /// Fails with a diagnostic if a pattern matches no module.
  LogicalResult checkPatterns() {
    std::set<std::string> paths;
    getOperation().walk([&](OperatorOp op) { paths.insert(modulePath(op).str()); });
    for (const std::string &text : modules) {
      auto pattern = NamePatterns::parse(getOperation(), {text});
      if (failed(pattern))
        return failure();
      if (llvm::any_of(paths,
                       [&](StringRef path) { return !shortestMatchingPrefix(*pattern, path).empty(); }))
        continue;
      auto isShorter = [](StringRef a, StringRef b) { return a.size() < b.size(); };
      const auto example = std::max_element(paths.begin(), paths.end(), isShorter);
      return getOperation().emitError()
             << "modules to recompute: found \"" << text << "\", which matches no module, expected full, "
             << "selective, minimum-cut, or the path of a module, such as "
             << (example == paths.end() ? "" : *example) << ", in which * and ? are wildcards";
    }
    return success();
  }

  void runOnOperation() override {
    auto patterns = NamePatterns::parse(getOperation(), modules);
    if (failed(patterns) || failed(checkPatterns()))
      return signalPassFailure();
    auto segmentOf = [&](StringRef path) {
      std::string segment =
          patterns->empty() ? moduleListItemSegment(path) : shortestMatchingPrefix(*patterns, path);
      if (segment.empty() && patterns->empty() && kind != RecomputeKind::Full)
        segment = kOutsideLists;
      return segment;
    };
    auto clones = recompute(getOperation(), kind, segmentOf);
    if (failed(clones))
      return signalPassFailure();
    if (*clones > 0)
      return;
    Builder b(&getContext());
    auto before = getOperation()->getAttrOfType<ArrayAttr>(kNotRecomputedAttr);
    SmallVector<Attribute> none(before ? before.getValue() : ArrayRef<Attribute>());
    for (const std::string &module : modules)
      none.push_back(b.getStringAttr(module));
    if (modules.empty())
      none.push_back(b.getStringAttr(nameOf(kind)));
    getOperation()->setAttr(kNotRecomputedAttr, b.getArrayAttr(none));
  }
};
} // namespace

} // namespace cleave
