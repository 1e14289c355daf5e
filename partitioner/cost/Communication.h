//===- Communication.h - What split tensors cost on the way -----*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_COST_COMMUNICATION_H
#define CLEAVE_PARTITIONER_COST_COMMUNICATION_H

#include "partitioner/machine/CollectiveCosts.h"
#include "partitioner/sharding/ShardingPropagation.h"

namespace cleave {

/// Seconds of collectives over the ranks of a group, as the search counts them: before sums are merged.
class Communication {
public:
  /// `function` must outlive it.
  Communication(const ShardingPropagation &function, unsigned ranks, const CollectiveCosts &costs)
      : function(function), ranks(ranks), costs(costs) {}

  double gatherSeconds(TensorRef tensor) const { return seconds(CollectiveKind::AllGather, tensor); }
  double sumSeconds(TensorRef tensor) const { return seconds(CollectiveKind::AllReduce, tensor); }
  /// All that the class owes.
  double secondsOf(const ShardingGroup &found) const;

private:
  double seconds(CollectiveKind kind, TensorRef tensor) const {
    return costs.seconds(kind, function.bytesOf(tensor), ranks);
  }

  const ShardingPropagation &function;
  unsigned ranks;
  CollectiveCosts costs;
};

/// What plans owe at the least that split given weights.
///
/// A split value is owed a collective sooner or later on its path from a weight: a sum or a gather that its
/// class owes, or the gather at which a class ends early. Follow one path from each dimension of each weight,
/// to the first collective that is owed there whatever the plan; a plan pays one of those on the way. Each
/// collective is shared out over all weights that may come to it, by their bytes, and each weight pays the
/// least share on its paths: no class's weights pay more together than the class owes.
class CommunicationBound {
public:
  /// Both must outlive it.
  CommunicationBound(const ShardingPropagation &function, const Communication &cost)
      : function(function), cost(cost) {}

  /// A path from each of `weights` that the class splits.
  void add(const ShardingGroup &found, llvm::ArrayRef<TensorRef> weights);
  double leastSeconds(llvm::ArrayRef<TensorRef> split) const;

private:
  /// A value, and 1 where it is summed, 0 where it is gathered.
  using Collective = std::pair<mlir::Value, unsigned>;
  using Path = llvm::SmallVector<Collective>;
  friend class PathFinder;

  double secondsOf(Collective collective) const;

  const ShardingPropagation &function;
  const Communication &cost;
  llvm::DenseMap<TensorRef, llvm::SmallVector<Path>> paths;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_COST_COMMUNICATION_H
