//===- Schedules.h - Schedule generators ------------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SIMULATION_SCHEDULES_H
#define CLEAVE_PARTITIONER_SIMULATION_SCHEDULES_H

#include "codegen/plan/Schedule.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace cleave {

/// The pipeline that a schedule is for. Stage s is on pipeline rank s mod `pipelineRanks`.
struct Pipeline {
  /// Index of the plan's signature (entry point) that the schedule is for.
  uint32_t signature = 0;
  /// `pipelineRanks` is at most `stages`.
  uint32_t stages = 1, pipelineRanks = 1, microbatches = 1;
  /// Transfers from an earlier stage to a later one, each pair at most once, in any order.
  std::vector<plan::Transfer> transfers = {};
  /// Consecutive ranks of the plan that form one pipeline rank: its data-parallel and tensor-parallel ranks.
  uint32_t ranksPerDeviceGroup = 1;
  /// Transfers of gradients, from a later stage to an earlier one. Nothing: gradients come back wherever
  /// values go.
  std::optional<std::vector<plan::Transfer>> gradientTransfers = std::nullopt;
};

// Every generator fixes the order of a pipeline rank's passes and lays them out in time: a forward pass and
// each half of a backward pass take 1, a transfer takes 0. It then emits passes and transfers in the order of
// time. A send stands right beside its receive in that order, so the earliest transfer that has not happened
// is the next action of both its pipeline ranks once they reach it. No schedule deadlocks, whatever the
// transfers are, even if a send waits for its receive.

/// The forward half of GPipe (Huang et al. 2019), which is the whole schedule for inference: micro-batches go
/// through the stages one after the other. For two stages and two micro-batches, in the notation of
/// plan::toString:
///
///     rank 0:  F0.0  S0.0>1  F0.1  S0.1>1
///     rank 1:  R1.0<0  F1.0  R1.1<0  F1.1
///
/// With more stages than pipeline ranks, the schedule is interleaved (Narayanan et al. 2021): micro-batches
/// go in groups of `pipelineRanks`, which shortens the bubbles at both ends. For four stages on two pipeline
/// ranks:
///
///     rank 0:  F0.0  S0.0>1  F0.1  S0.1>1  R2.0<1  F2.0  R2.1<1  …
plan::Schedule gpipe(const Pipeline &pipeline);

/// Schedule of a training step for p pipeline ranks and m micro-batches. On pipeline rank r, F is a forward
/// pass, B a backward pass for inputs, and W one for weights; gradients are sent to the earlier stage. Where
/// B and W are one pass, B stands directly before W, and B's sends after W.
enum class TrainingSchedule {
  /// All F, then all BW.
  Gpipe,
  /// p-1-r warm-up F, then F and BW in turn (PipeDream-flush, Narayanan et al. 2021); min(p-r, m)
  /// micro-batches are in flight.
  OneForwardOneBackward,
  /// 1F1B with v stages per pipeline rank in Megatron's order: groups of p micro-batches go through its
  /// stages one after the other, and the first 2(p-1-r) + (v-1)p passes are F. If p does not divide m, the
  /// last group has fewer micro-batches. The order is then the one for m rounded up to a multiple of p, less
  /// the passes of micro-batches that do not exist. If the last pipeline ranks have fewer than v stages, the
  /// passes of the missing stages are left out, too.
  Interleaved,
  /// 1F1B with W apart from B (ZB-H1, Qi et al. 2023): W runs up to r micro-batches after its B, which fills
  /// the bubble at the end; min(p, m) micro-batches are in flight on every pipeline rank.
  ZeroBubbleH1,
};

/// `gpipe`, `1f1b`, `interleaved`, `zb-h1`.
llvm::StringRef nameOf(TrainingSchedule kind);

/// Nothing for other names.
std::optional<TrainingSchedule> trainingScheduleNamed(llvm::StringRef name);

/// Appends what a training step does when all gradients are there: each rank reduces the buckets of its
/// stages, in the order of the plan, adds its part of the norm, reduces that, and updates its stages. `plan`
/// has programs and buckets.
void appendUpdates(plan::Schedule &schedule, const plan::Plan &plan);

/// \returns an error if the kind allows one stage per pipeline rank (1F1B, ZB-H1) and there are more.
llvm::Expected<plan::Schedule> makeTrainingSchedule(TrainingSchedule kind, const Pipeline &pipeline);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SIMULATION_SCHEDULES_H
