//===- RecomputeSearch.cpp - Recomputation within memory ------------------===//
#include "tools/driver/search/RecomputeSearch.h"
#include "codegen/plan/PlanQueries.h"
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
                  const PipelineShape &shape)
      : options(options), source(source), context(context), shape(shape), limits(shape.memoryOfRanks()) {
    // Trials have no memory limit: the cutter does not model recomputation.
    this->shape.memoryGiven.reset();
    this->shape.memoryOfDevices.clear();
  }
  Expected<Choice> run();

private:
  /// Of the rank that comes nearest to its memory, or exceeds it most.
  struct Peak {
    int64_t bytes, limit;
    bool fits() const { return bytes <= limit; }
  };
  /// Predicted for a step.
  Expected<Peak> peakOf(const Choice &recomputed) const;
  llvm::Error outOfMemoryError(const Peak &peak, const llvm::Twine &remedy) const;

  const CompileOptions &options;
  const ModelSource &source;
  mlir::MLIRContext &context;
  PipelineShape shape;
  const std::vector<std::optional<int64_t>> limits;
};
} // namespace

Expected<RecomputeSearch::Peak> RecomputeSearch::peakOf(const Choice &recomputed) const {
  CompileOptions tried = options;
  tried.emitIr.clear();
  tried.gradients->recompute = recomputed;
  auto plan = PlanMaker(tried, source, context).make(shape);
  if (!plan)
    return plan.takeError();
  std::vector<int64_t> bytes(limits.size());
  for (const auto &stage : (*plan)->stages)
    for (uint32_t rank : stage->ranks)
      bytes[rank] += predictionOf(**plan, stage->index, rank % (*plan)->mesh->tp)->peak_bytes;
  std::optional<Peak> most;
  for (auto [rank, limit] : llvm::enumerate(limits))
    if (limit && (!most || bytes[rank] - *limit > most->bytes - most->limit))
      most = {bytes[rank], *limit};
  return *most;
}

llvm::Error RecomputeSearch::outOfMemoryError(const Peak &peak, const llvm::Twine &remedy) const {
  return llvm::createStringError(options.model + ": a step takes " + llvm::Twine(peak.bytes) +
                                 " bytes at its peak, its device has " + llvm::Twine(peak.limit) + "; " +
                                 remedy + " (--device-memory " + llvm::Twine(peak.bytes) + "B)");
}

Expected<Choice> RecomputeSearch::run() {
  const Choice &given = options.gradients->recompute;
  auto peak = peakOf(given);
  if (!peak)
    return peak.takeError();
  if (peak->fits())
    return given;
  if (!given.empty())
    return outOfMemoryError(
        *peak, "leave out --recompute, so that activations are chosen, or use a device with more memory");
  const std::vector<std::string> items = moduleListItems(source.model.module.get());
  auto cheapAndFirst = [&](size_t count) {
    Choice choice{nameOf(RecomputeKind::MinimumCut).str()};
    choice.insert(choice.end(), items.begin(), items.begin() + count);
    return choice;
  };
  auto cheap = peakOf(cheapAndFirst(0));
  if (!cheap)
    return cheap.takeError();
  if (cheap->fits())
    return cheapAndFirst(0);
  auto all = peakOf(cheapAndFirst(items.size()));
  if (!all)
    return all.takeError();
  if (!all->fits())
    return outOfMemoryError(
        std::min({*peak, *cheap, *all},
                 [](const Peak &a, const Peak &b) { return a.bytes - a.limit < b.bytes - b.limit; }),
        llvm::Twine("use a smaller batch, ") + (options.gradients->update ? "micro-batches, " : "") +
            "or more memory; recomputation alone does not do");
  // Bisection, as if the peak fell with each item. It may rise by an item (Recompute.h); then the number that
  // is found fits, and may not be the smallest.
  size_t begin = 1, fits = items.size();
  while (begin < fits) {
    const size_t middle = (begin + fits) / 2;
    auto found = peakOf(cheapAndFirst(middle));
    if (!found)
      return found.takeError();
    if (found->fits())
      fits = middle;
    else
      begin = middle + 1;
  }
  return cheapAndFirst(fits);
}

Expected<Choice> chooseRecomputed(const CompileOptions &options, const ModelSource &source,
                                  mlir::MLIRContext &context, const PipelineShape &shape) {
  if (llvm::none_of(shape.memoryOfRanks(), [](const auto &bytes) { return bytes.has_value(); }))
    return options.gradients->recompute;
  return RecomputeSearch(options, source, context, shape).run();
}

} // namespace cleave
