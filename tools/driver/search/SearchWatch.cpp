//===- SearchWatch.cpp - Progress and stopping of a mesh search -----------===//
#include "tools/driver/search/SearchWatch.h"
#include "tools/driver/base/StopSource.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {

using llvm::formatv;

std::string meshOf(const Configuration &configuration) {
  std::string data = configuration.schedule || configuration.dataParallelSize > 1
                         ? ",dp=" + std::to_string(configuration.dataParallelSize)
                         : "";
  return formatv("pp={0}{1},tp={2}", configuration.pipelineParallelSize, data,
                 configuration.tensorParallelSize);
}

SearchWatch::~SearchWatch() {
  if (options.stop)
    options.stop->close();
}

/// Once true, it stays true.
bool SearchWatch::isInterrupted() {
  if (!interruptedAfter && options.stop && options.stop->isStopRequested())
    interruptedAfter = std::chrono::duration<double>(Clock::now() - begun).count();
  return interruptedAfter.has_value();
}

/// `evaluating meshes: tp=4, best so far pp=2,tp=2: 5.40 ms`.
void SearchWatch::tell(double share) const {
  if (!options.progress)
    return;
  std::string found;
  if (best)
    found = formatv(", best so far {0}: {1:f2} ms", meshOf(best->configuration), best->seconds * 1e3);
  options.progress("evaluating meshes: " + part + found, (before + share * inPart) / all);
}

void SearchWatch::begin(size_t work) {
  best = std::nullopt;
  isMaking = false;
  all = work;
  before = inPart = 0;
  if (options.stop && !interruptedAfter)
    options.stop->close();
}

bool SearchWatch::beginPart(llvm::StringRef name, size_t work) {
  before += inPart;
  inPart = work;
  part = name.str();
  if (isInterrupted())
    leftOut.push_back(part);
  else
    tell(0);
  return !interruptedAfter;
}

bool SearchWatch::addEstimate(const Estimate &estimate, double share) {
  const bool isUsable = estimate.isUsable();
  if (isUsable && (!best || estimate.seconds < best->seconds))
    best = estimate;
  if (best && options.stop)
    options.stop->open();
  tell(share);
  return !isInterrupted();
}

CancellationScope SearchWatch::making(const Configuration &configuration) {
  if (options.progress)
    options.progress("making the best: " + meshOf(configuration), std::nullopt);
  // The user who stopped the search wants its result made in full.
  if (isInterrupted())
    return CancellationScope(nullptr);
  isMaking = true;
  return CancellationScope([this] { return isInterrupted(); });
}

std::vector<std::string> SearchWatch::notes(llvm::ArrayRef<Estimate> estimates) const {
  if (!interruptedAfter)
    return {};
  const std::string begin = formatv("interrupted after {0:f1} s", *interruptedAfter);
  if (isMaking)
    return {begin + ", when all was evaluated; its cut may not be the best"};
  std::vector<std::string> missing;
  for (auto [index, one] : llvm::enumerate(estimates)) {
    // Reports those with the same number of tensor-parallel ranks once.
    auto isLike = [&](const Estimate &other) {
      return other.obstacle == kNotEvaluated &&
             other.configuration.tensorParallelSize == one.configuration.tensorParallelSize;
    };
    if (one.obstacle == kNotEvaluated && llvm::none_of(estimates.take_front(index), isLike))
      missing.push_back(
          formatv("{0} of tp={1}", llvm::count_if(estimates, isLike), one.configuration.tensorParallelSize));
  }
  llvm::append_range(missing, leftOut);
  return {begin + (missing.empty() ? ", when all was evaluated"
                                   : "; what was not evaluated: " + llvm::join(missing, ", "))};
}

} // namespace cleave
