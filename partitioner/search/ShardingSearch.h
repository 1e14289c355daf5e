//===- ShardingSearch.h - Which dimensions to split -------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SEARCH_SHARDINGSEARCH_H
#define CLEAVE_PARTITIONER_SEARCH_SHARDINGSEARCH_H

#include "partitioner/cost/Communication.h"
#include "partitioner/graph/LimitRange.h"
#include "partitioner/machine/DeviceGroup.h"
#include "partitioner/sharding/Sharding.h"
#include "llvm/ADT/DenseMap.h"

namespace cleave {

/// A dimension of a weight to split, from which the rest follows.
struct ShardingSeed {
  ParamOp weight;
  unsigned dim;
  /// The weight alone is split, and what its products give or take is whole: its class ends there.
  bool isCut = false;
};

/// Every tensor that seeds split, and how. The class of a seed ends before what seeds before it have split.
class Shardings {
public:
  /// Both must outlive it.
  Shardings(const ShardingPropagation &function, unsigned ranks) : function(function), ranks(ranks) {}

  /// Of tensors, whether they were decided on already.
  using Answers = llvm::DenseMap<TensorRef, bool>;

  /// What splitting the seed would add.
  /// \param asked  gets all answers that this depends on; may be null.
  ShardingGroup classOf(const ShardingSeed &seed, Answers *asked = nullptr) const;
  /// Whether they are what they were: then all that depends on nothing else is, too.
  bool answerAlike(const Answers &before) const;
  void add(const ShardingGroup &found);
  void clear() { tensors.clear(); }
  /// Null for what is whole, be it that all ranks share it.
  ShardingAttr lookup(TensorRef tensor) const { return tensors.lookup(tensor); }
  const llvm::MapVector<TensorRef, ShardingAttr> &all() const { return tensors; }

private:
  const ShardingPropagation &function;
  unsigned ranks;
  llvm::MapVector<TensorRef, ShardingAttr> tensors;
};

/// The words for how a weight is split, transformers' and torch's.
enum class ShardingStyle { Replicate, Colwise, Rowwise, EmbeddingRowwise };
llvm::StringRef wordOf(ShardingStyle style);
/// `colwise`, `rowwise`, `replicate`, `embedding_rowwise`, and the other names that these have, such as
/// `ColwiseParallel`. Fails on others, with the nearest of these.
llvm::Expected<ShardingStyle> parseShardingStyle(llvm::StringRef word);

/// What a user said of the weights that a pattern matches; the last match counts.
struct ShardingRule {
  /// A glob of the paths of modules or weights.
  std::string pattern;
  ShardingStyle style;
};

/// A weight that products, convolutions or lookups use, and what was decided for it.
struct WeightDecision {
  ParamOp weight;
  ShardingStyle style = ShardingStyle::Replicate;
  /// Index of the seed that splits it; -1 for none.
  int seed = -1;
  /// What a user wants; nothing where they said nothing.
  std::optional<ShardingStyle> asked = std::nullopt;
  /// Whole since splitting it would cost more time than it saves.
  bool isDear = false;
};

/// What splitting from one seed came to.
struct SplitDimension {
  /// The module that its weights have in common; empty for the model.
  std::string path;
  /// How many parts it has: heads, rows of a width.
  int32_t parts = 0;
  std::vector<std::string> weights;
  unsigned sums = 0, gathers = 0;
  /// Seconds that it costs beyond those that it saves, for each byte.
  double price = 0;
};

struct ShardingDecision {
  /// In the order in which they count.
  std::vector<ShardingSeed> seeds;
  /// One a seed.
  std::vector<SplitDimension> dimensions;
  std::vector<WeightDecision> weights;
  /// Patterns that matched nothing.
  std::vector<std::string> unmatched;
  /// Of these weights, those that are split.
  int64_t splitBytes = 0;
  /// Of all weights on the rank that has most of them; with a memory limit also of the values that live at
  /// once, as if these were whole, without the workspace of operators.
  int64_t rankBytes = 0;
  /// The memory limits with which the decision is this one; any where the request has none.
  LimitRange memoryLimits;
  /// What all classes owe, before sums are merged.
  double seconds = 0;
  /// No plan that splits these weights owes less, if classes that end early take heads and widths apart as
  /// whole ones do.
  double leastSeconds = 0;
};

struct ShardingRequest {
  unsigned ranks = 2;
  /// Collectives, and devices for the time that splitting saves.
  DeviceGroup group;
  std::vector<ShardingRule> rules;
  /// Bytes that a rank has room for; nothing: it is to hold as little as can be.
  std::optional<int64_t> memoryLimit;
};

/// Splits every weight of products, convolutions and lookups that can be split over the ranks and is worth
/// it: whole classes first, those with the least communication (seconds over the link) for their bytes before
/// others, as far as they do not want one tensor in two ways; each weight that is left then in its cheapest
/// way, by a class that ends before what is split, or by itself. Greedy: `leastSeconds` says what the best
/// cannot fall below.
///
/// Within a memory limit, what would cost more time than it saves stays whole: what costs more for its bytes
/// than a price, the lowest at which all fits, by bisection, as if more fitted at higher ones.
ShardingDecision decideSharding(mlir::func::FuncOp function, const ShardingRequest &request);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SEARCH_SHARDINGSEARCH_H
