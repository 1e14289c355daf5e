//===- Schedules.h - Schedule generators ------------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SIMULATION_SCHEDULES_H
#define CLEAVE_PARTITIONER_SIMULATION_SCHEDULES_H

#include "codegen/plan/Schedule.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <vector>

namespace cleave {

/// What a schedule is for. Stage s is on rank s mod `ranks`.
struct Pipeline {
  uint32_t signature = 0;
  /// Ranks of the pipeline are at most as many as stages.
  uint32_t stages = 1, ranks = 1, microbatches = 1;
  /// Each from an earlier stage to a later one and each pair at most once; any order.
  std::vector<plan::Transfer> transfers = {};
  /// How many ranks, one behind the other, do what one of the pipeline's does: its data and tensor ranks.
  uint32_t width = 1;
};

// All generators fix the order of a rank's passes, lay them out in time (a forward pass and each half of a
// backward one take 1, a transfer nothing) and deal passes and transfers out in that order of time. A send
// stands in it right beside its receive, so the first transfer not yet done is always the next one for both
// of its ranks: no table deadlocks, even where a send waits for its receive and whatever the transfers are.

/// The forward half of GPipe (Huang et al. 2019), which is all of it for inference: the micro-batches go
/// through the stages one behind the other. For two stages and two micro-batches, in the words of
/// plan::toString:
///
///     rank 0:  F0.0  S0.0>1  F0.1  S0.1>1
///     rank 1:  R1.0<0  F1.0  R1.1<0  F1.1
///
/// With more stages than ranks, micro-batches pass in groups of as many as there are ranks, which shortens
/// the wait at both ends (interleaving, Narayanan et al. 2021). For four stages on two ranks:
///
///     rank 0:  F0.0  S0.0>1  F0.1  S0.1>1  R2.0<1  F2.0  R2.1<1  …
plan::Schedule gpipe(const Pipeline &pipeline);

/// Forward and backward passes of a step, for p ranks and m micro-batches. On rank r, F are forward passes,
/// and B and W the backward ones for inputs and for weights; gradients are sent to the earlier stage. Where B
/// and W are one pass, B stands directly before W, and what it sends after that.
enum class TrainingKind {
  /// All F, then all BW.
  Gpipe,
  /// p-1-r times F, then F and BW by turns (PipeDream-flush, Narayanan et al. 2021): min(p-r, m)
  /// micro-batches are live.
  OneForwardOneBackward,
  /// The same with v stages a rank, in Megatron's order: groups of p micro-batches pass a rank's stages one
  /// after the other,
  /// the first 2(p-1-r) + (v-1)p passes are F. Of m that p does not divide, the last group is short: the
  /// order is the next
  /// multiple's without the passes that are not there. Stages that are missing on the last ranks are left out
  /// the same way.
  Interleaved,
  /// 1F1B with W apart, as late as r micro-batches after its B, which fills the wait at the end (Qi et al.
  /// 2023): min(p, m)
  /// micro-batches are live on every rank.
  ZeroBubbleH1,
};

/// `gpipe`, `1f1b`, `interleaved`, `zb-h1`.
llvm::StringRef nameOf(TrainingKind kind);

/// \returns an error where the kind takes one stage a rank (1F1B, ZB-H1) and there are more.
llvm::Expected<plan::Schedule> trainingSchedule(TrainingKind kind, const Pipeline &pipeline);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SIMULATION_SCHEDULES_H
