//===- ShardingPropagator.h - One propagation of labels ------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SHARDING_SHARDINGPROPAGATOR_H
#define CLEAVE_PARTITIONER_SHARDING_SHARDINGPROPAGATOR_H

#include "partitioner/sharding/Sharding.h"
#include "llvm/ADT/SetVector.h"
#include <set>

namespace cleave {

/// One propagation.
class ShardingPropagator {
public:
  /// Which factor of a dimension to split where there are several, counted from the outermost: where a view
  /// takes it apart, and where any other operator does, as attention of grouped heads.
  struct Preference {
    unsigned ofViews, ofOthers;
  };
  /// \param isWhole  tensors that get no labels; may be null.
  ShardingPropagator(const ShardingPropagation &function, Preference preference,
                     llvm::function_ref<bool(TensorRef)> isWhole)
      : function(function), preference(preference), isWhole(isWhole) {}

  /// What operators owe; other uses are left out.
  ShardingGroup run(TensorRef tensor, unsigned dim, int64_t size);
  /// After it: the class without the labels of what `found` gathers, which stays whole.
  ShardingGroup keepWhole(ShardingGroup found);
  /// The largest numbers of factors that there were to choose from.
  Preference countAlternatives() const { return alternatives; }

  /// Of a label that must be wherever others are, these.
  using Below = llvm::DenseMap<int32_t, llvm::SmallVector<int32_t, 1>>;

private:
  using Call = ShardingPropagation::Call;
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
  /// Makes `to` the same as `label`; true where it had none.
  bool meet(int32_t &to, int32_t label) {
    if (label == ShardAssignment::kWhole || to == label)
      return false;
    if (to != ShardAssignment::kWhole) {
      unite(to, label);
      return false;
    }
    to = label;
    return true;
  }
  bool give(TensorRef tensor, unsigned dim, const Labels &labels);
  const ShardAssignment *assignmentOf(TensorRef tensor) const;

  void visit(unsigned index);
  void visitIndexMap(const Call &call);
  void visitFactors(unsigned index);
  std::optional<unsigned> chooseFactor(const Call &call);
  /// The factors of a tensor's labelled dimension; empty where it is not labelled or the rule says nothing of
  /// it.
  llvm::ArrayRef<unsigned> labelledFactors(TensorRef tensor, llvm::ArrayRef<DimensionRule::Dims> dims,
                                           size_t index) const;
  /// Whether the call joins, cuts or reorders a split dimension.
  bool isAlong(const Call &call) const;
  bool isAlong(const Call &call, TensorRef tensor) const;
  void project(const Labels &labels, const FactorSteps &steps, Labels &projected);
  const Labels &coverGroups(unsigned index, const Labels &labels, int64_t each);
  /// What a split operand is to its call.
  enum class Use { Pass, Sum, Gather };
  Use useOf(unsigned index, unsigned operand, std::optional<unsigned> factor) const;
  /// Whether the call makes result `index` split in another way than the class splits it.
  bool refuses(const Call &call, unsigned index, std::optional<unsigned> factor) const;
  void classify(unsigned index, ShardingGroup &found) const;
  Below orderLabels();
  std::vector<int32_t> number(ShardingGroup &found);
  ShardingGroup conclude();

  const ShardingPropagation &function;
  const Preference preference;
  Preference alternatives{1, 1};
  llvm::function_ref<bool(TensorRef)> isWhole;
  Labels parents;
  llvm::MapVector<TensorRef, ShardAssignment> tensors;
  /// Pairs of labels of which the first must be wherever the second is.
  llvm::SetVector<std::pair<int32_t, int32_t>> needs;
  /// Labels of the class that are numbered and not shared.
  int32_t count = 0;
  /// Labels of what stays whole.
  llvm::DenseSet<int32_t> everywhere;
  /// By call: of each group of its shared factor, the label of what the group shares.
  llvm::DenseMap<unsigned, Labels> covers;
  /// In program order, so that a call sees what comes from all of its operands.
  std::set<unsigned> queue, visited;
  /// By call.
  llvm::DenseMap<unsigned, unsigned> factors;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_SHARDINGPROPAGATOR_H
