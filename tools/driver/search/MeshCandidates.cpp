//===- MeshCandidates.cpp - Candidates beside a chosen mesh ---------------===//
#include "tools/driver/search/MeshCandidates.h"
#include "partitioner/machine/MakeError.h"
#include "tools/driver/search/SearchWatch.h"
#include "tools/driver/search/TrainingForecast.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <algorithm>

namespace cleave {

using llvm::formatv;
using llvm::StringRef;

/// `12.3 % longer`.
static std::string longer(double seconds, double best) {
  const double percent = (seconds / best - 1) * 100;
  return percent < 0.05 ? "as long" : formatv("{0:f1} % longer", percent).str();
}

static std::string scheduleOf(const Configuration &configuration) {
  if (!configuration.schedule)
    return configuration.stagesPerRank > 1 ? "interleaved" : "gpipe";
  const std::string zero = configuration.zeroStage ? ", zero " + std::to_string(configuration.zeroStage) : "";
  return (nameOf(*configuration.schedule) + ", recompute " + recomputeName(configuration.training.recompute) +
          zero)
      .str();
}

/// One line of text, as a plan may hold it, and independent of the folder of the model's file.
static std::string reasonOf(StringRef obstacle, StringRef model) {
  if (obstacle.consume_front(model))
    obstacle.consume_front(": ");
  std::string text = llvm::json::fixUTF8(obstacle.ltrim().split('\n').first);
  std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return text;
}

plan::MeshCandidates meshCandidates(const Estimate &chosen, llvm::ArrayRef<Estimate> estimates,
                                    StringRef model) {
  plan::MeshCandidates result;
  for (const Estimate &estimate : estimates) {
    const Configuration &it = estimate.configuration;
    const bool isUsable = estimate.obstacle.empty();
    plan::MeshCandidate &one = *result.emplace_back(std::make_unique<plan::MeshCandidate>());
    one.mesh = meshOf(it);
    one.schedule = scheduleOf(it);
    one.microbatches = it.microbatches;
    one.seconds = isUsable ? estimate.seconds : 0;
    one.peak_bytes = isUsable ? estimate.peakBytes : 0;
    if (!isUsable)
      one.reason = reasonOf(estimate.obstacle, model);
    else if (!(it == chosen.configuration))
      one.reason =
          (estimate.isLowerBound ? "takes at least " : "takes ") + longer(estimate.seconds, chosen.seconds);
  }
  // The chosen one first, even if faster ones turned out not to work.
  std::stable_partition(result.begin(), result.end(), [](const auto &one) { return one->reason.empty(); });
  result.resize(std::min(result.size(), plan::kMaxCandidates));
  return result;
}

std::vector<std::string> noteUnused(llvm::ArrayRef<Estimate> estimates, const Estimate &chosen,
                                    uint32_t all) {
  const uint32_t used = chosen.configuration.devices();
  if (used == all)
    return {};
  std::string note = formatv("{0} of the {1} devices {2} used", used, all, used == 1 ? "is" : "are");
  auto other = llvm::find_if(estimates, [&](const Estimate &one) {
    return one.configuration.devices() == all && one.obstacle != kNotEvaluated;
  });
  if (other != estimates.end())
    note += ": with all of them, " + meshOf(other->configuration) + " ";
  if (other != estimates.end() && other->obstacle.empty())
    note += (other->isLowerBound ? "takes at least " : "takes ") + longer(other->seconds, chosen.seconds) +
            " by estimate";
  else if (other != estimates.end())
    note += "fails: " + other->obstacle;
  return {note};
}

/// True if all devices have equal memory, by the machine or by the user.
static bool areAlike(const PipelineShape &shape) {
  return shape.memoryGiven || llvm::all_equal(shape.memoryOfDevices);
}

std::string remedyForMemory(const PipelineShape &shape, int64_t bytes) {
  const std::string remedy = formatv("use more devices, or devices with memory for {0} bytes", bytes);
  // The option applies to all devices: larger ones keep their memory.
  return areAlike(shape) ? formatv("{0} (--device-memory {1}B)", remedy, bytes).str() : remedy;
}

llvm::Error noUsableMeshError(llvm::ArrayRef<Estimate> estimates, StringRef model,
                              const PipelineShape &shape) {
  const Estimate *least = nullptr;
  auto bytesOf = [](const Estimate &one) { return one.shortage ? one.shortage->bytes : one.peakBytes; };
  for (const Estimate &one : estimates)
    if (bytesOf(one) > 0 && (!least || bytesOf(one) < bytesOf(*least)))
      least = &one;
  // What was estimated lacks memory alone.
  if (least && least->shortage)
    return makeError(
        "{0}: {1} takes least memory of what was evaluated, {2} bytes on a device that has {3}; {4}", model,
        meshOf(least->configuration), least->shortage->bytes, least->shortage->budget,
        remedyForMemory(shape, least->shortage->bytes));
  const Estimate &first = *llvm::max_element(estimates, [](const Estimate &a, const Estimate &b) {
    return !a.obstacle.empty() < !b.obstacle.empty();
  });
  auto saysTheSame = [&](const Estimate &one) { return one.obstacle == first.obstacle; };
  const std::string what = llvm::all_of(estimates, saysTheSame)
                               ? ""
                               : formatv("no mesh of {0} devices can be used; {1}: ", shape.search->devices,
                                         meshOf(first.configuration))
                                     .str();
  StringRef obstacle = first.obstacle;
  obstacle.consume_front((model + ": ").str());
  return makeError("{0}: {1}{2}", model, what, obstacle);
}

std::string memoryLimitsText(const PipelineShape &shape) {
  if (areAlike(shape))
    return formatv("{0} bytes of each",
                   shape.memoryGiven ? *shape.memoryGiven : *shape.memoryOfDevices.front());
  return "the memory of each";
}

std::string memoryShortageReason(const PipelineShape &shape) {
  const MemoryBudgets budgets = shape.memoryOfRanks();
  if (llvm::all_equal(budgets))
    return formatv("takes more than the {0} bytes of a device at its peak", *budgets.front());
  std::string each;
  for (const auto &bytes : budgets)
    if (bytes)
      each += (each.empty() ? "" : ", ") + std::to_string(*bytes);
  return formatv("takes more than the {0} bytes of devices at their peaks", each);
}

} // namespace cleave
