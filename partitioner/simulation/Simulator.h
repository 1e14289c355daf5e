//===- Simulator.h - What a schedule takes ----------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SIMULATION_SIMULATOR_H
#define CLEAVE_PARTITIONER_SIMULATION_SIMULATOR_H

#include "codegen/plan/Plan.h"
#include "partitioner/machine/Link.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace cleave {

/// What a stage takes for one micro-batch.
struct StageCost {
  /// Seconds of its passes.
  double forward = 0, inputGradient = 0, weightGradient = 0;
  /// What it holds from the begin of its forward pass to the end of the last pass that the schedule has for
  /// it.
  int64_t activationBytes = 0;
};

/// What stage `from` gives stage `to` for one micro-batch; gradients come back, as many bytes.
struct TransferSize {
  uint32_t from, to;
  int64_t bytes = 0;
};

struct PipelineCosts {
  std::vector<StageCost> stages;
  /// Each from an earlier stage to a later one, each pair once.
  std::vector<TransferSize> transfers;
  /// Between two ranks, and by sender and receiver where it is another.
  Link link;
  std::map<std::pair<uint32_t, uint32_t>, Link> linkOverrides;
  /// `activationBytes` by stage and position in its place, where a rank's are others than the stage's.
  std::map<std::pair<uint32_t, uint32_t>, int64_t> activationOverrides;
  /// Ranks that share their stages. They exchange values with those of the same position elsewhere.
  uint32_t ranksPerPlace = 1;
  /// So many of these, one behind the other, are a tensor group: each pass begins on all of them once the
  /// last one can. 0: all are one.
  uint32_t groupSize = 0;
  /// False: as Cleave's runtime does it, a send waits for its receive, and both ranks do nothing else until
  /// the bytes are there. True: a send leaves its rank free, and all receives have been posted in time; a
  /// pass waits for its inputs, and messages of one rank to one other follow each other at the link's
  /// bandwidth.
  bool overlapsTransfers = false;
};

struct TimedAction {
  plan::Action action;
  /// Sends and receives include their wait. Where transfers overlap, a send begins when the link is free and
  /// a receive when it is posted, and both end when the bytes are there.
  double begin, end;
};

/// What is live on a rank from `time` on.
struct LiveValues {
  double time;
  /// Micro-batches of a stage whose forward pass has begun and whose last one has not ended.
  uint32_t activations;
  /// Theirs, and those of values that wait to be sent or used.
  int64_t bytes;
};

struct RankForecast {
  /// In the order of the table.
  std::vector<TimedAction> timeline;
  /// In passes.
  double busySeconds = 0;
  /// Each change.
  std::vector<LiveValues> live;
  uint32_t peakActivations = 0;
  int64_t peakBytes = 0;
};

/// What a device holds from `seconds` on.
struct MemoryStep {
  double seconds;
  int64_t bytes;
  bool operator==(const MemoryStep &) const = default;
};

struct Forecast {
  /// Until the last rank is done.
  double seconds = 0;
  std::vector<RankForecast> ranks;
  double bubbleSeconds(uint32_t rank) const { return seconds - ranks[rank].busySeconds; }
};

/// Runs a schedule on paper: each rank does its actions in order, each as soon as it can. What follows, to
/// rounding, for p ranks of v stages, m micro-batches and the schedules of Schedules.h, where every stage
/// takes f forward, x for input and w for weight gradients, b = x + w, and transfers take nothing and
/// overlap:
///
/// | schedule    | bubble of each rank                                  | peak activations of rank r     |
/// |-------------|------------------------------------------------------|--------------------------------|
/// | gpipe       | (p-1)(f+b)                                           | m                              |
/// | 1f1b        | (p-1)(f+b)                                           | min(p-r, m)                    |
/// | interleaved | (p-1)(f+b) where p divides m: the v-th part          | min(mv, (v-1)p + 2(p-1-r) + 1) |
/// | zb-h1       | (p-1)(f+x) - (min(p,m)-1)w where w <= min(f,x)       | min(p, m)                      |
///
/// So zb-h1's is (p-1)(f+x-w) from m = p on; a larger w leaves more than that. Gpipe and 1f1b keep theirs
/// where sends wait, zb-h1 where f = x = w then. Unequal stages take Σf + Σb + (m-1)(max f + max b) in gpipe,
/// and at most that in 1f1b.
///
/// \returns an error where the table cannot finish, names stages or transfers that `costs` lacks, or costs
/// are negative or not finite. `codegen/plan/Schedule.h` has the full check of a table.
llvm::Expected<Forecast> simulate(const plan::Schedule &schedule, const PipelineCosts &costs);

/// What a rank holds from the begin of the step on, `base` bytes throughout and what is live: each change, of
/// those at one time the last, and before that the most where nothing around it is as much. So the most of
/// all is `base` and the rank's `peakBytes`.
std::vector<MemoryStep> memoryOverTime(const RankForecast &rank, int64_t base);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SIMULATION_SIMULATOR_H
