//===- RecomputeSearch.cpp - Recomputation within memory ------------------===//
#include "tools/driver/search/RecomputeSearch.h"
#include "ir/Cleave.h"
#include "ir/ModuleList.h"
#include "ir/OperatorDialect.h"
#include "llvm/ADT/SetVector.h"

namespace cleave {

using llvm::Expected;
/// As GradientOptions::recompute.
using Choice = std::vector<std::string>;

/// The items of lists of modules, in the order in which the model calls them, but those whose names would be
/// other patterns.
static std::vector<std::string> moduleListItems(mlir::ModuleOp model) {
  llvm::SetVector<llvm::StringRef> items;
  model.walk([&](OperatorOp op) {
    if (llvm::StringRef item = moduleListItem(modulePath(op)).second; !item.empty())
      items.insert(item);
  });
  std::vector<std::string> names;
  auto isPlain = [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.' || c == '-'; };
  for (llvm::StringRef item : items)
    if (llvm::all_of(item, isPlain))
      names.push_back(item.str());
  return names;
}

namespace {
class RecomputeSearch {
public:
  RecomputeSearch(const CompileOptions &options, const ModelSource &source, mlir::MLIRContext &context,
                  const PipelineShape &shape, int64_t limit)
      : options(options), source(source), context(context), shape(shape), limit(limit) {
    // Trials have no memory limit: the cutter does not model recomputation.
    this->shape.memoryGiven.reset();
    this->shape.memoryOfDevices.clear();
  }
  Expected<Choice> run();

private:
  /// Predicted bytes at the peak of a step.
  Expected<int64_t> peakOf(const Choice &recomputed) const;
  llvm::Error tooLittle(int64_t peak, const llvm::Twine &remedy) const;

  const CompileOptions &options;
  const ModelSource &source;
  mlir::MLIRContext &context;
  PipelineShape shape;
  const int64_t limit;
};
} // namespace

Expected<int64_t> RecomputeSearch::peakOf(const Choice &recomputed) const {
  CompileOptions tried = options;
  tried.emitIr.clear();
  tried.gradients->recompute = recomputed;
  auto plan = PlanMaker(tried, source, context).make(shape);
  if (!plan)
    return plan.takeError();
  return (*plan)->predictions.front()->peak_bytes;
}

llvm::Error RecomputeSearch::tooLittle(int64_t peak, const llvm::Twine &remedy) const {
  return llvm::createStringError(options.model + ": a step takes " + llvm::Twine(peak) +
                                 " bytes at its peak, its device has " + llvm::Twine(limit) + "; " + remedy +
                                 " (--device-memory " + llvm::Twine(peak) + "B)");
}

Expected<Choice> RecomputeSearch::run() {
  const Choice &given = options.gradients->recompute;
  auto peak = peakOf(given);
  if (!peak)
    return peak.takeError();
  if (*peak <= limit)
    return given;
  if (!given.empty())
    return tooLittle(
        *peak, "leave out --recompute, so that activations are chosen, or use a device with more memory");
  const std::vector<std::string> items = moduleListItems(source.model.module.get());
  auto cheapAndFirst = [&](size_t count) {
    Choice choice{kMinimumCut};
    choice.insert(choice.end(), items.begin(), items.begin() + count);
    return choice;
  };
  auto cheap = peakOf(cheapAndFirst(0));
  if (!cheap)
    return cheap.takeError();
  if (*cheap <= limit)
    return cheapAndFirst(0);
  auto all = peakOf(cheapAndFirst(items.size()));
  if (!all)
    return all.takeError();
  if (*all > limit)
    return tooLittle(std::min({*peak, *cheap, *all}),
                     llvm::Twine("use a smaller batch, ") +
                         (options.gradients->update ? "micro-batches, " : "") +
                         "or more memory; recomputation alone does not do");
  // Bisection: the more items are recomputed, the fewer bytes wait for the backward pass.
  size_t begin = 1, fits = items.size();
  while (begin < fits) {
    const size_t middle = (begin + fits) / 2;
    auto found = peakOf(cheapAndFirst(middle));
    if (!found)
      return found.takeError();
    if (*found <= limit)
      fits = middle;
    else
      begin = middle + 1;
  }
  return cheapAndFirst(fits);
}

Expected<Choice> chooseRecomputed(const CompileOptions &options, const ModelSource &source,
                                  mlir::MLIRContext &context, const PipelineShape &shape) {
  std::optional<int64_t> limit;
  for (const std::optional<int64_t> &bytes : shape.memoryOfRanks())
    if (bytes)
      limit = std::min(limit.value_or(*bytes), *bytes);
  if (!limit)
    return options.gradients->recompute;
  return RecomputeSearch(options, source, context, shape, *limit).run();
}

} // namespace cleave
