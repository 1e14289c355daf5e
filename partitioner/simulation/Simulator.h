//===- Simulator.h - Simulation of pipeline schedules -----------*- C++ -*-===//
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

/// Costs of a stage for one micro-batch.
struct StageCost {
  /// Seconds of its forward pass, and of its backward passes.
  double forward = 0, inputGradient = 0, weightGradient = 0;
  /// Bytes held from the beginning of its forward pass to the end of the micro-batch's last pass in the
  /// schedule.
  int64_t activationBytes = 0;
  /// Seconds of its update, and of each reduction of its gradients, once a step.
  double update = 0, reduce = 0;
};

/// Bytes that stage `from` sends to stage `to` for one micro-batch. Gradients of as many bytes come back.
struct TransferSize {
  uint32_t from, to;
  int64_t bytes = 0;
};

struct PipelineCosts {
  std::vector<StageCost> stages;
  /// From an earlier stage to a later one, each pair once.
  std::vector<TransferSize> transfers;
  /// `link`: between two ranks. `linkOverrides`: by sender and receiver, links that differ from it.
  Link link;
  std::map<std::pair<uint32_t, uint32_t>, Link> linkOverrides;
  /// By stage and position in its device group: `activationBytes` of ranks that differ from the stage's.
  std::map<std::pair<uint32_t, uint32_t>, int64_t> activationOverrides;
  /// Ranks of a device group, which share their stages. They exchange values with ranks of the same position
  /// in other device groups.
  uint32_t ranksPerDeviceGroup = 1;
  /// Size of the tensor-parallel groups of consecutive ranks in a device group. A pass begins on all ranks of
  /// a tensor-parallel group when the last one is ready. 0: all ranks of the device group.
  uint32_t tensorParallelSize = 0;
  /// False, as in Cleave's runtime: a send waits for its receive, and both ranks are blocked until the bytes
  /// have arrived. True: a send does not block, all receives are posted in time, a pass waits for its inputs,
  /// and messages from one rank to another follow each other at the link's bandwidth.
  bool overlapsTransfers = false;
};

struct TimedAction {
  plan::Action action;
  /// Sends and receives include their wait. If transfers overlap, a send begins when the link is free and a
  /// receive when it is posted; both end when the bytes have arrived.
  double begin, end;
};

/// Values alive on a rank from `time` on.
struct LiveValues {
  double time;
  /// Number of micro-batches in flight, counted per stage: their forward pass on the stage has begun, and
  /// their last pass there has not ended.
  uint32_t inFlight;
  /// Bytes of their activations, and of values that wait to be sent or used.
  int64_t bytes;
};

struct RankSimulation {
  /// In the order of the rank's actions in the schedule.
  std::vector<TimedAction> timeline;
  /// Seconds in passes.
  double busySeconds = 0;
  /// One entry for each change.
  std::vector<LiveValues> live;
  uint32_t peakInFlight = 0;
  int64_t peakBytes = 0;
};

/// Bytes of a device from `seconds` on.
struct MemoryStep {
  double seconds;
  int64_t bytes;
  bool operator==(const MemoryStep &) const = default;
};

struct SimulationResult {
  /// End of the last rank.
  double seconds = 0;
  std::vector<RankSimulation> ranks;
  double bubbleSeconds(uint32_t rank) const { return seconds - ranks[rank].busySeconds; }
};

/// Simulates a schedule: each rank does its actions in order, each as soon as possible. This is the result,
/// up to rounding, for p ranks of v stages, m micro-batches and the schedules of Schedules.h, if every stage
/// takes f for the forward pass, x for input and w for weight gradients, b = x + w, and transfers overlap and
/// take no time:
///
/// | schedule    | bubble of each rank                                  | peakInFlight of rank r         |
/// |-------------|------------------------------------------------------|--------------------------------|
/// | gpipe       | (p-1)(f+b)                                           | m                              |
/// | 1f1b        | (p-1)(f+b)                                           | min(p-r, m)                    |
/// | interleaved | (p-1)(f+b) if p divides m; f, b of one of v stages   | min(mv, (v-1)p + 2(p-1-r) + 1) |
/// | zb-h1       | (p-1)(f+x) - (min(p,m)-1)w where w <= min(f,x)       | min(p, m)                      |
///
/// A rank's v stages together take v times f and b, so interleaved's bubble is 1/v of 1f1b's for the same
/// work per rank. From m = p on, zb-h1's bubble is (p-1)(f+x-w); a larger w leaves more than that. With
/// blocking sends, gpipe and 1f1b keep their bubbles, zb-h1 does if f = x = w. Unequal stages take Σf + Σb +
/// (m-1)(max f + max b) in gpipe, and at most that in 1f1b.
///
/// \returns an error if the schedule deadlocks, names stages or transfers that `costs` lacks, or if costs are
/// negative or not finite. `codegen/plan/Schedule.h` has the full check of a schedule.
llvm::Expected<SimulationResult> simulate(const plan::Schedule &schedule, const PipelineCosts &costs);

/// Bytes of a rank over time: `base` plus the bytes of live values, which is at most `base` plus `peakBytes`.
/// Changes at one time give an entry with the last value, preceded by one with the peak if that is higher.
std::vector<MemoryStep> memoryOverTime(const RankSimulation &rank, int64_t base);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SIMULATION_SIMULATOR_H
