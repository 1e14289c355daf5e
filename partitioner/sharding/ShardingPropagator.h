//===- ShardingPropagator.h - One propagation of labels ---------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SHARDING_SHARDINGPROPAGATOR_H
#define CLEAVE_PARTITIONER_SHARDING_SHARDINGPROPAGATOR_H

#include "partitioner/sharding/Sharding.h"
#include "llvm/ADT/SetVector.h"
#include <set>

namespace cleave {

/// One propagation of labels through a function; see ShardingPropagation.h.
class ShardingPropagator {
public:
  /// Which of several factors of a dimension to shard, counted from the outermost: where a view takes the
  /// dimension apart, and where another operator does, such as grouped-query attention.
  struct Preference {
    unsigned ofViews, ofOthers;
  };
  /// \param isWhole  tensors that get no labels; may be null.
  ShardingPropagator(const AnalyzedFunction &function, Preference preference,
                     llvm::function_ref<bool(TensorRef)> isWhole)
      : function(function), preference(preference), isWhole(isWhole) {}

  /// Propagates from the dimension. The group has only the needs of operators; other uses are left out.
  ShardingGroup run(TensorRef tensor, unsigned dim, int64_t size);
  /// After `run`: the group that keeps whole what `found` gathers, by dropping those labels.
  ShardingGroup keepReplicated(ShardingGroup found);
  /// The largest numbers of factors that calls could choose from.
  Preference countAlternatives() const { return alternatives; }

  /// By label: the labels that require it. A rank that has one of these must also have the label.
  using RequiredBy = llvm::DenseMap<int32_t, llvm::SmallVector<int32_t, 1>>;

private:
  using Call = AnalyzedFunction::Call;
  using Labels = std::vector<int32_t>;

  int32_t find(int32_t label) {
    while (parents[label] != label)
      label = parents[label] = parents[parents[label]];
    return label;
  }
  void unite(int32_t left, int32_t right) {
    left = find(left), right = find(right);
    parents[std::max(left, right)] = std::min(left, right);
  }
  /// Sets `to` to the label, or merges the two; true if `to` had no label.
  bool meet(int32_t &to, int32_t label) {
    if (label == LabelledDim::kReplicated || to == label)
      return false;
    if (to != LabelledDim::kReplicated) {
      unite(to, label);
      return false;
    }
    to = label;
    return true;
  }
  bool give(TensorRef tensor, unsigned dim, const Labels &labels);
  const LabelledDim *labelledDimOf(TensorRef tensor) const;

  void visit(unsigned index);
  void visitIndexMap(const Call &call);
  void visitFactors(unsigned index);
  std::optional<unsigned> chooseFactor(const Call &call);
  /// The factors of a tensor's labelled dimension; empty if it has no label or the rule does not cover it.
  llvm::ArrayRef<unsigned> labelledFactors(TensorRef tensor, llvm::ArrayRef<OpShardingRule::Dims> dims,
                                           size_t index) const;
  /// True if the call concatenates, slices or reorders a labelled dimension.
  bool isIndexMapped(const Call &call) const;
  bool isIndexMapped(const Call &call, TensorRef tensor) const;
  void project(const Labels &labels, const FactorMapping &mapping, Labels &projected);
  const Labels &labelSharedHeads(unsigned index, const Labels &labels, int64_t headsPerGroup);
  /// Effect of a sharded operand on its call: none, partial sums, or a need for the whole operand.
  enum class Use { Pass, Sum, Gather };
  Use useOf(unsigned index, unsigned operand, std::optional<unsigned> factor) const;
  /// True if the call shards result `index` in another dimension than the group does.
  bool refuses(const Call &call, unsigned index, std::optional<unsigned> factor) const;
  void classify(unsigned index, ShardingGroup &found) const;
  RequiredBy mergeCycles();
  std::vector<int32_t> number(ShardingGroup &found);
  ShardingGroup conclude();

  const AnalyzedFunction &function;
  const Preference preference;
  Preference alternatives{1, 1};
  llvm::function_ref<bool(TensorRef)> isWhole;
  Labels parents;
  llvm::MapVector<TensorRef, LabelledDim> tensors;
  /// Pairs of labels: the first must be on each rank that has the second.
  llvm::SetVector<std::pair<int32_t, int32_t>> requirements;
  /// Number of labels of the group that are numbered and not shared.
  int32_t count = 0;
  /// Labels of tensors that stay whole.
  llvm::DenseSet<int32_t> everywhere;
  /// By call whose rule has `groupedHeads`, and by group: the label of the key/value head that the group's
  /// query heads share.
  llvm::DenseMap<unsigned, Labels> sharedLabels;
  /// Calls, in program order, so that a call sees the labels of all its operands.
  std::set<unsigned> queue, visited;
  /// By call: the factor that it shards.
  llvm::DenseMap<unsigned, unsigned> factors;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_SHARDINGPROPAGATOR_H
