//===- DataParallelism.cpp - Data parallelism and ZeRO --------------------===//
#include "partitioner/simulation/DataParallelism.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <map>

namespace cleave {

int64_t DataParallelGroup::heldBytes(int64_t weights, int64_t gradients, int64_t optimizer) const {
  auto held = [&](int64_t bytes, uint32_t from) {
    return zeroStage >= from ? int64_t(llvm::divideCeil(bytes, ranks)) : bytes;
  };
  return held(weights, 3) + held(gradients, 2) + held(optimizer, 1);
}

double DataParallelGroup::reduceSeconds(int64_t bytes) const {
  return seconds(zeroStage == 0 ? CollectiveKind::AllReduce : CollectiveKind::ReduceScatter, bytes);
}

double DataParallelGroup::allGatherSeconds(int64_t weights) const {
  return ranks > 1 && (zeroStage == 1 || zeroStage == 2) ? seconds(CollectiveKind::AllGather, weights) : 0;
}

/// Most bytes of two consecutive items, which are gathered at the same time.
static int64_t mostGathered(llvm::ArrayRef<int64_t> items) {
  int64_t most = 0;
  for (size_t i = 0; i < items.size(); ++i)
    most = std::max(most, items[i] + (i > 0 ? items[i - 1] : 0));
  return most;
}

TrainingStageCost DataParallelGroup::shardedCost(const TrainingStageCost &unsharded) const {
  TrainingStageCost part = unsharded;
  if (ranks == 1 || zeroStage == 0)
    return part;
  const int64_t trained = unsharded.weightBytes + unsharded.gradientBytes + unsharded.optimizerBytes;
  part.stateBytes +=
      heldBytes(unsharded.weightBytes, unsharded.gradientBytes, unsharded.optimizerBytes) - trained;
  part.update /= ranks;
  if (zeroStage >= 2 && !unsharded.buckets.empty()) {
    double sums = 0;
    for (const GradientBucket &bucket : llvm::ArrayRef(unsharded.buckets).drop_back())
      sums += reduceSeconds(bucket.bytes);
    part.weightGradient = std::max(part.weightGradient, sums);
    for (const GradientBucket &bucket : unsharded.buckets)
      part.bufferBytes = std::max(part.bufferBytes, bucket.bytes);
  }
  if (zeroStage < 3 || unsharded.layerBytes.empty())
    return part;
  double gathers = 0;
  for (int64_t bytes : unsharded.layerBytes)
    gathers += seconds(CollectiveKind::AllGather, bytes);
  auto begin = [&](double &pass, int64_t firstItem) {
    const double first = seconds(CollectiveKind::AllGather, firstItem);
    pass = first + std::max(pass, gathers - first);
  };
  begin(part.forward, unsharded.layerBytes.front());
  begin(part.inputGradient, unsharded.layerBytes.back());
  part.bufferBytes += mostGathered(unsharded.layerBytes);
  return part;
}

/// By stage of the rank: index in the timeline of its last pass for weight gradients.
static std::map<uint32_t, size_t> lastPasses(const RankSimulation &rank) {
  std::map<uint32_t, size_t> last;
  for (auto [index, timed] : llvm::enumerate(rank.timeline))
    if (timed.action.kind == plan::ActionKind::BackwardWeight)
      last[timed.action.stage] = index;
  return last;
}

double DataParallelGroup::gradientsReducedAt(const RankSimulation &rank,
                                             llvm::ArrayRef<TrainingStageCost> stages) const {
  double end = 0;
  std::vector<std::pair<double, int64_t>> ready;
  for (auto [stage, index] : lastPasses(rank)) {
    const TimedAction &last = rank.timeline[index];
    end = std::max(end, last.end);
    // Gradients of inputs and weights alternate layer by layer, unless the schedule separates them.
    const plan::Action *before = index > 0 ? &rank.timeline[index - 1].action : nullptr;
    const bool isOne = before && before->kind == plan::ActionKind::BackwardInput && before->stage == stage &&
                       before->microbatch == last.action.microbatch;
    for (const GradientBucket &bucket : stages[stage].buckets)
      ready.push_back({last.end - bucket.weightPassSecondsLeft - (isOne ? bucket.inputPassSecondsLeft : 0),
                       bucket.bytes});
    // The other buckets were reduced during the pass.
    if (zeroStage >= 2 && !stages[stage].buckets.empty())
      ready.erase(ready.end() - stages[stage].buckets.size(), ready.end() - 1);
  }
  if (ranks == 1)
    return end;
  llvm::sort(ready);
  double sum = 0;
  for (auto [time, bytes] : ready)
    sum = std::max(sum, time) + reduceSeconds(bytes);
  return std::max(sum, end);
}

} // namespace cleave
