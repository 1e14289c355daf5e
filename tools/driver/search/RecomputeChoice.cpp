//===- RecomputeChoice.cpp - Recomputation within memory ------------------===//
#include "tools/driver/search/RecomputeChoice.h"
#include "ir/Cleave.h"
#include "ir/ModuleList.h"
#include "ir/OperatorDialect.h"
#include "llvm/ADT/SetVector.h"

namespace cleave {

using llvm::Expected;
using Modules = std::vector<std::string>;

/// The items of lists of modules, in the order in which the model calls them.
static Modules itemsOf(mlir::ModuleOp model) {
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
class RecomputeChoice {
public:
  RecomputeChoice(const CompileOptions &options, const ModelSource &source, mlir::MLIRContext &context,
                  const PipelineShape &shape, int64_t limit)
      : options(options), source(source), context(context), shape(shape), limit(limit) {
    // Cuts for a limit know of no recomputation.
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

Expected<int64_t> RecomputeChoice::peakOf(const Modules &recomputed) const {
  CompileOptions tried = options;
  tried.emitIr.clear();
  tried.gradients->recompute = recomputed;
  auto plan = PlanMaker(tried, source, context).make(shape);
  if (!plan)
    return plan.takeError();
  return (*plan)->predictions.front()->peak_bytes;
}

llvm::Error RecomputeChoice::tooLittle(int64_t peak, llvm::StringRef remedy) const {
  return llvm::createStringError(options.model + ": a step takes " + llvm::Twine(peak) +
                                 " bytes at its peak, its device has " + llvm::Twine(limit) + "; " + remedy +
                                 " (--device-memory " + llvm::Twine(peak) + "B)");
}

Expected<Modules> RecomputeChoice::run() {
  const Modules &given = options.gradients->recompute;
  auto peak = peakOf(given);
  if (!peak)
    return peak.takeError();
  if (*peak <= limit)
    return given;
  if (!given.empty())
    return tooLittle(*peak,
                     "leave out --recompute, so that modules are chosen, or use a device with more memory");
  const Modules items = itemsOf(source.model.module.get());
  if (items.empty())
    return tooLittle(*peak, "name modules to recompute (--recompute), use a smaller batch or more memory");
  auto least = peakOf(items);
  if (!least)
    return least.takeError();
  if (*least > limit)
    return tooLittle(*least,
                     "use a smaller batch, micro-batches, or more memory; activations of all items of "
                     "its lists of modules are recomputed already");
  // `fitting` items suffice, `missing` do not.
  size_t fitting = items.size(), missing = 0;
  while (fitting - missing > 1) {
    const size_t middle = (fitting + missing) / 2;
    auto found = peakOf(Modules(items.begin(), items.begin() + middle));
    if (!found)
      return found.takeError();
    (*found <= limit ? fitting : missing) = middle;
  }
  return Modules(items.begin(), items.begin() + fitting);
}

Expected<Modules> chooseRecomputed(const CompileOptions &options, const ModelSource &source,
                                   mlir::MLIRContext &context, const PipelineShape &shape) {
  std::optional<int64_t> limit;
  for (const std::optional<int64_t> &bytes : shape.memoryOfRanks())
    if (bytes)
      limit = std::min(limit.value_or(*bytes), *bytes);
  if (!limit)
    return options.gradients->recompute;
  return RecomputeChoice(options, source, context, shape, *limit).run();
}

} // namespace cleave
