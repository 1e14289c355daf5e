//===- RecomputeSearch.cpp - Recomputation within memory ------------------===//
#include "tools/driver/search/RecomputeSearch.h"
#include "ir/Cleave.h"
#include "ir/ModuleList.h"
#include "ir/OperatorDialect.h"
#include "llvm/ADT/SetVector.h"

namespace cleave {

using llvm::Expected;
using Modules = std::vector<std::string>;

/// The items of lists of modules, in the order in which the model calls them.
static Modules moduleListItems(mlir::ModuleOp model) {
  llvm::SetVector<llvm::StringRef> items;
  model.walk([&](OperatorOp op) {
    if (llvm::StringRef item = moduleListItem(modulePath(op)).second; !item.empty())
      items.insert(item);
  });
  Modules names;
  for (llvm::StringRef item : items)
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
  Expected<Modules> run();

private:
  /// Predicted bytes at the peak of a step.
  Expected<int64_t> peakOf(const Modules &recomputed) const;
  llvm::Error tooLittle(int64_t peak, llvm::StringRef remedy) const;

  const CompileOptions &options;
  const ModelSource &source;
  mlir::MLIRContext &context;
  PipelineShape shape;
  const int64_t limit;
};
} // namespace

Expected<int64_t> RecomputeSearch::peakOf(const Modules &recomputed) const {
  CompileOptions tried = options;
  tried.emitIr.clear();
  tried.gradients->recompute = recomputed;
  auto plan = PlanMaker(tried, source, context).make(shape);
  if (!plan)
    return plan.takeError();
  return (*plan)->predictions.front()->peak_bytes;
}

llvm::Error RecomputeSearch::tooLittle(int64_t peak, llvm::StringRef remedy) const {
  return llvm::createStringError(options.model + ": a step takes " + llvm::Twine(peak) +
                                 " bytes at its peak, its device has " + llvm::Twine(limit) + "; " + remedy +
                                 " (--device-memory " + llvm::Twine(peak) + "B)");
}

Expected<Modules> RecomputeSearch::run() {
  const Modules &given = options.gradients->recompute;
  auto peak = peakOf(given);
  if (!peak)
    return peak.takeError();
  if (*peak <= limit)
    return given;
  if (!given.empty())
    return tooLittle(*peak,
                     "leave out --recompute, so that modules are chosen, or use a device with more memory");
  const Modules items = moduleListItems(source.model.module.get());
  if (items.empty())
    return tooLittle(*peak, "name modules to recompute (--recompute), use a smaller batch or more memory");
  auto least = peakOf(items);
  if (!least)
    return least.takeError();
  if (*least > limit)
    return tooLittle(*least,
                     "use a smaller batch, micro-batches, or more memory; activations of all items of "
                     "its lists of modules are recomputed already");
  // Bisection: the more items are recomputed, the fewer bytes wait for the backward pass.
  size_t fits = items.size(), doesNotFit = 0;
  while (fits - doesNotFit > 1) {
    const size_t middle = (fits + doesNotFit) / 2;
    auto found = peakOf(Modules(items.begin(), items.begin() + middle));
    if (!found)
      return found.takeError();
    (*found <= limit ? fits : doesNotFit) = middle;
  }
  return Modules(items.begin(), items.begin() + fits);
}

Expected<Modules> chooseRecomputed(const CompileOptions &options, const ModelSource &source,
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
