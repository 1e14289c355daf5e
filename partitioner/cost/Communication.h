//===- Communication.h - Costs of the collectives that sharding inserts -*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_COST_COMMUNICATION_H
#define CLEAVE_PARTITIONER_COST_COMMUNICATION_H

#include "partitioner/graph/MergedSignatures.h"
#include "partitioner/machine/CollectiveCosts.h"
#include "partitioner/sharding/ShardingPropagation.h"

namespace cleave {

/// Seconds of collectives over the `ranks` ranks of one tensor-parallel group, as the sharding search counts
/// them: before all-reduces are merged.
class CommunicationCosts {
public:
  /// `function` must outlive it.
  CommunicationCosts(const AnalyzedFunction &function, unsigned ranks, const CollectiveCosts &costs)
      : function(function), ranks(ranks), costs(costs) {}

  double allGatherSeconds(TensorRef tensor) const { return seconds(CollectiveKind::AllGather, tensor); }
  double allReduceSeconds(TensorRef tensor) const { return seconds(CollectiveKind::AllReduce, tensor); }
  /// Seconds of all collectives that the sharding group needs.
  double secondsOf(const ShardingGroup &found) const;

private:
  double seconds(CollectiveKind kind, TensorRef tensor) const {
    mlir::Operation *maker = tensor.value.getDefiningOp();
    return (maker ? frequencyOf(maker) : 1) * costs.seconds(kind, function.bytesOf(tensor), ranks);
  }

  const AnalyzedFunction &function;
  unsigned ranks;
  CollectiveCosts costs;
};

/// Lower bound of the communication of all shardings that shard the given weights.
///
/// Every sharded value needs a collective sooner or later on its path from a weight: an all-reduce or
/// all-gather of its sharding group, or the all-gather at which the group ends early. For each dimension of
/// each weight, the bound records one path through its sharding group: the tensors passed, each of which
/// could be all-gathered to end the group there, then the first collective that the group itself needs.
/// Whatever the sharding, it pays for at least one of them. The cost of a collective is divided among all
/// weights whose paths meet it, in proportion to their bytes, and each weight pays the smallest share on its
/// paths. So the weights of a sharding group never pay more in total than the group needs.
class CommunicationBound {
public:
  /// \param function, costs  must outlive the object.
  CommunicationBound(const AnalyzedFunction &function, const CommunicationCosts &costs)
      : function(function), costs(costs) {}

  /// Records a path from each of `weights`, which the sharding group shards.
  void add(const ShardingGroup &found, llvm::ArrayRef<TensorRef> weights);
  /// \param shardedWeights  weights that are sharded, in whatever dimension.
  double secondsLowerBound(llvm::ArrayRef<TensorRef> shardedWeights) const;

private:
  /// A value, and 1 for its all-reduce or 0 for its all-gather.
  using Collective = std::pair<mlir::Value, unsigned>;
  using Path = llvm::SmallVector<Collective>;
  friend class PathFinder;

  double secondsOf(Collective collective) const;

  const AnalyzedFunction &function;
  const CommunicationCosts &costs;
  llvm::DenseMap<TensorRef, llvm::SmallVector<Path>> paths;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_COST_COMMUNICATION_H
