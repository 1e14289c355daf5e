//===- DataParallelism.h - Pipelines side by side ---------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SIMULATION_DATAPARALLELISM_H
#define CLEAVE_PARTITIONER_SIMULATION_DATAPARALLELISM_H

#include "partitioner/cost/TrainingCosts.h"
#include "partitioner/machine/CollectiveCosts.h"
#include "partitioner/simulation/Simulator.h"
#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// As far as ZeRO goes (Rajbhandari et al. 2020).
inline constexpr uint32_t kMostZero = 3;

/// Ranks that hold the same stage of pipelines side by side, each for a part of the batch. What they would
/// all have, they hold in parts instead (ZeRO): from stage 1 on the optimizer's state, from 2 on gradients,
/// from 3 on weights.
struct DataGroup {
  uint32_t ranks = 1, zero = 0;
  CollectiveCosts collectives = {};

  /// What each rank holds of these bytes: with Ψ parameters of 2 bytes, gradients of as many, K bytes a
  /// parameter of the optimizer's and N ranks 2Ψ + 2Ψ + KΨ, 2Ψ + 2Ψ + KΨ/N, 2Ψ + (2 + K)Ψ/N, and (2 + 2 +
  /// K)Ψ/N.
  int64_t heldBytes(int64_t weights, int64_t gradients, int64_t optimizer) const;

  /// What a rank's part of `whole` takes and holds.
  ///
  /// From stage 2 on, gradients are summed after each micro-batch, since only a part of the sum is kept: its
  /// pass for them takes what it computes or what its sums take, the longer one, but for the last bucket's,
  /// which waits for the end (`whenSummed`). At stage 3, weights are gathered for each forward and each
  /// backward pass, an item of a list of modules after the other while the one before computes, so that the
  /// pass takes the longer of the two after its first item's is there; what is gathered of two items is held
  /// beside the rest.
  TrainingStageCost partOf(const TrainingStageCost &whole) const;

  /// When the gradients of a rank are summed, which is no earlier than its last backward pass ends. The sums
  /// begin while that of a stage still goes on: layers are gone through from the last to the first, and each
  /// bucket is summed when it is full, one after the other (Li et al. 2020). An all-reduce; from ZeRO 1 on a
  /// reduce-scatter.
  ///
  /// \param stages  of all ranks, as `rank`'s schedule numbers them.
  double whenSummed(const RankForecast &rank, llvm::ArrayRef<TrainingStageCost> stages) const;

  /// Of weights, after the update of their parts, for ranks that hold them whole.
  double gatherSeconds(int64_t weights) const;

private:
  double seconds(CollectiveKind kind, int64_t bytes) const {
    return bytes > 0 ? collectives.seconds(kind, bytes, ranks) : 0;
  }
  double sumSeconds(int64_t bytes) const;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SIMULATION_DATAPARALLELISM_H
