//===- DataParallelism.h - Data parallelism and ZeRO ------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SIMULATION_DATAPARALLELISM_H
#define CLEAVE_PARTITIONER_SIMULATION_DATAPARALLELISM_H

#include "partitioner/cost/TrainingCosts.h"
#include "partitioner/machine/CollectiveCosts.h"
#include "partitioner/simulation/Simulator.h"
#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// The highest ZeRO stage (Rajbhandari et al. 2020).
inline constexpr uint32_t kMaxZeroStage = 3;

/// A data-parallel group: the ranks that hold the same pipeline stage, each for a part of the batch. ZeRO
/// shards over them: the optimizer state from stage 1 on, gradients from stage 2 on, weights at stage 3.
struct DataParallelGroup {
  uint32_t ranks = 1, zeroStage = 0;
  CollectiveCosts collectives = {};

  /// Bytes of these totals that each rank holds. ZeRO shards `optimizer` from stage 1 on, `gradients` from
  /// stage 2 on, `weights` at stage 3; each sharded total is divided by the number of ranks, rounded up.
  int64_t heldBytes(int64_t weights, int64_t gradients, int64_t optimizer) const;

  /// Costs of a stage on one rank of the group, from those of the stage without sharding, `unsharded`.
  ///
  /// From ZeRO stage 2 on, gradients are reduced after each micro-batch, since a rank keeps only its shard of
  /// the sum. The pass that computes them takes the longer of its computation and its reductions, except for
  /// the last bucket's, which is reduced at the end (`gradientsReducedAt`). At stage 3, weights are
  /// all-gathered for each forward and each backward pass, one item of a module list at a time, while the
  /// item before computes. A pass takes the longer of the two, after the gather of its first item; the
  /// gathered weights of two items are held beside the rest.
  TrainingStageCost shardedCost(const TrainingStageCost &unsharded) const;

  /// Time at which the gradients of a rank are reduced; not before its last backward pass ends. Reductions
  /// overlap with that pass: it goes through layers from the last to the first, and each bucket is reduced
  /// when it is full, one after the other (Li et al. 2020), by an all-reduce, from ZeRO stage 1 on by a
  /// reduce-scatter.
  ///
  /// \param stages  of all ranks, numbered as in `rank`'s schedule.
  double gradientsReducedAt(const RankSimulation &rank, llvm::ArrayRef<TrainingStageCost> stages) const;

  /// Seconds of the all-gather of updated weights, which ranks hold whole but update in shards.
  double allGatherSeconds(int64_t weights) const;

private:
  double seconds(CollectiveKind kind, int64_t bytes) const {
    return bytes > 0 ? collectives.seconds(kind, bytes, ranks) : 0;
  }
  double reduceSeconds(int64_t bytes) const;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SIMULATION_DATAPARALLELISM_H
