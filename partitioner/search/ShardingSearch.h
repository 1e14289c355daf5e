//===- ShardingSearch.h - Search for the dimensions to shard ----*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SEARCH_SHARDINGSEARCH_H
#define CLEAVE_PARTITIONER_SEARCH_SHARDINGSEARCH_H

#include "partitioner/cost/Communication.h"
#include "partitioner/graph/LimitRange.h"
#include "partitioner/machine/DeviceGroup.h"
#include "partitioner/sharding/Sharding.h"
#include "llvm/ADT/DenseMap.h"

namespace cleave {

/// A dimension of a weight to shard; the rest of the sharding follows from it.
struct ShardingSeed {
  ParamOp weight;
  unsigned dim;
  /// If true, the sharding group ends at once: only the weight is sharded, and its contractions take and give
  /// whole tensors.
  bool weightOnly = false;
};

/// The sharded tensors of all seeds. The sharding group of a seed ends before tensors that earlier seeds have
/// sharded.
class Shardings {
public:
  /// \param function  must outlive the object.
  Shardings(const AnalyzedFunction &function, unsigned ranks) : function(function), ranks(ranks) {}

  /// By tensor that the propagation met: whether an earlier seed had sharded it or left it replicated.
  using Dependencies = llvm::DenseMap<TensorRef, bool>;

  /// The sharding group that the seed would add.
  /// \param dependencies  collects what the result depends on; may be null.
  ShardingGroup shardingGroupOf(const ShardingSeed &seed, Dependencies *dependencies = nullptr) const;
  /// True if a result that depends on these alone is still valid.
  bool isUnchanged(const Dependencies &dependencies) const;
  void add(const ShardingGroup &found);
  void clear() { tensors.clear(); }
  /// Null for a tensor that is not sharded: undecided, or decided to stay replicated
  /// (ShardingGroup::replicated).
  ShardingAttr lookup(TensorRef tensor) const { return tensors.lookup(tensor); }
  const llvm::MapVector<TensorRef, ShardingAttr> &all() const { return tensors; }

private:
  const AnalyzedFunction &function;
  unsigned ranks;
  llvm::MapVector<TensorRef, ShardingAttr> tensors;
};

/// The words of transformers and torch for how a weight is sharded.
enum class ShardingStyle { Replicate, Colwise, Rowwise, EmbeddingRowwise };
llvm::StringRef wordOf(ShardingStyle style);
/// Parses `colwise`, `rowwise`, `replicate`, `embedding_rowwise` and their other names, such as
/// `ColwiseParallel`. An error names the nearest word.
llvm::Expected<ShardingStyle> parseShardingStyle(llvm::StringRef word);

/// A user's style for the weights that a pattern matches; the last match wins.
struct ShardingConstraint {
  /// Glob over paths of modules or weights.
  std::string pattern;
  ShardingStyle style;
};

/// A weight that contractions (also convolutions) or lookups use, with its decision.
struct WeightDecision {
  ParamOp weight;
  ShardingStyle style = ShardingStyle::Replicate;
  /// Index of the seed that shards it; -1 if it is replicated.
  int seed = -1;
  /// Style that the user asked for; nothing if there is none.
  std::optional<ShardingStyle> asked = std::nullopt;
  /// True if the weight is replicated because sharding it would cost more time than it saves.
  bool isNotWorthSharding = false;
};

/// Summary of one seed's sharding group.
struct ShardingGroupSummary {
  /// The innermost module that contains all its weights; empty for the model.
  std::string path;
  /// Number of labels: attention heads, for instance, or indices of a hidden dimension.
  int32_t parts = 0;
  std::vector<std::string> weights;
  /// Numbers of all-reduces, and of all-gathers and reshards, before they are merged.
  unsigned sums = 0, gathers = 0;
  /// Seconds of communication minus seconds saved, per byte of weights.
  double price = 0;
};

struct ShardingDecision {
  /// In the order in which they were applied.
  std::vector<ShardingSeed> seeds;
  /// By seed.
  std::vector<ShardingGroupSummary> groups;
  std::vector<WeightDecision> weights;
  /// Patterns of constraints that matched no weight.
  std::vector<std::string> unmatchedPatterns;
  /// Bytes of those weights that are sharded.
  int64_t shardedBytes = 0;
  /// Bytes of all weights on the rank that holds most. With a memory limit, also the activations alive at
  /// once, counted as if they were whole, without workspace of operators.
  int64_t rankBytes = 0;
  /// Memory limits that lead to the same decision; all limits if the request has none.
  LimitRange memoryLimitRange;
  /// Seconds of the collectives of all sharding groups, before all-reduces are merged.
  double seconds = 0;
  /// Lower bound of `seconds` over all plans that shard these weights. It assumes that where a view splits a
  /// dimension into several factors (heads, head size), a group that ends early is sharded along the same
  /// factor as the group that does not end early.
  double secondsLowerBound = 0;
};

struct ShardingRequest {
  unsigned ranks = 2;
  /// Prices collectives, and the time that sharding saves.
  DeviceGroup group;
  std::vector<ShardingConstraint> constraints;
  /// Bytes of memory of a rank; nothing to shard as much as possible.
  std::optional<int64_t> memoryLimit;
};

/// Shards every weight of contractions (also convolutions) and lookups that can be sharded over the ranks and
/// is worth it.
///
/// Greedy: whole sharding groups first, in ascending order of communication seconds per byte of weights, as
/// far as they do not shard one tensor in two ways. Then each remaining weight in its cheapest way: by a
/// group that ends before tensors already sharded, or alone. `secondsLowerBound` bounds what an optimal
/// choice could save.
///
/// With a memory limit, weights whose sharding costs more time than it saves stay replicated if memory
/// allows. A shadow price per byte decides: the lowest at which everything fits, found by bisection; this
/// assumes that a higher price never needs more memory.
ShardingDecision decideSharding(mlir::func::FuncOp function, const ShardingRequest &request);

/// The most ranks over which one of the weights can be split along one of its dimensions; 1 if none can.
int64_t mostRanksOf(mlir::func::FuncOp function, llvm::ArrayRef<WeightDecision> weights);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SEARCH_SHARDINGSEARCH_H
