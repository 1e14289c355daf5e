//===- ShardingPropagation.h - Sharding of one dimension, propagated -*- C++ -*-===//
//
// Sharding a dimension of one tensor shards dimensions of others with it: the other operand of a contraction,
// the parts of a fused weight, the heads that a view makes of a hidden dimension. Labels find them. Each
// index of the dimension that propagation starts from gets its own label. Labels follow indices through every
// operator, from operands to results and from results to operands. The operator's entry in ir/semantics says
// which indices correspond. Where an operator needs two indices on one rank, their labels are merged. Any
// mapping from labels to ranks is then a legal sharding: a rank's shard is the indices with its labels. In a
// fused weight that is a range of each part, and in a dimension of several heads it is whole heads.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PARTITIONER_SHARDING_SHARDINGPROPAGATION_H
#define CLEAVE_PARTITIONER_SHARDING_SHARDINGPROPAGATION_H

#include "ir/semantics/OpSemantics.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace cleave {

/// A tensor: a value, or an item of a list or tuple.
struct TensorRef {
  mlir::Value value;
  unsigned item = 0;
  bool operator==(const TensorRef &) const = default;
};

} // namespace cleave

template <> struct llvm::DenseMapInfo<cleave::TensorRef> {
  using Pair = llvm::DenseMapInfo<std::pair<mlir::Value, unsigned>>;
  static cleave::TensorRef getEmptyKey() { return {llvm::DenseMapInfo<mlir::Value>::getEmptyKey(), 0}; }
  static cleave::TensorRef getTombstoneKey() {
    return {llvm::DenseMapInfo<mlir::Value>::getTombstoneKey(), 0};
  }
  static unsigned getHashValue(const cleave::TensorRef &ref) {
    return Pair::getHashValue({ref.value, ref.item});
  }
  static bool isEqual(const cleave::TensorRef &left, const cleave::TensorRef &right) { return left == right; }
};

namespace cleave {

/// A dimension, and the labels of its indices.
struct LabelledDim {
  /// Label of an index that every rank has.
  static constexpr int32_t kReplicated = -1;
  unsigned dim;
  std::vector<int32_t> labels;
};

/// The result of a propagation: tensors that are sharded together, and the collectives that they need.
struct ShardingGroup {
  /// Number of labels; labels 0 … count − 1 are numbered in the order of the dimension that propagation
  /// starts from.
  int32_t count = 0;
  /// Labels from `count` on are for indices that several labels need, such as a key/value head of several
  /// query heads. `shared[label − count]`: the labels below `count` that need it; every rank that has one of
  /// them has the index.
  std::vector<std::vector<int32_t>> shared;
  /// All sharded tensors, in the order in which they were reached.
  llvm::MapVector<TensorRef, LabelledDim> tensors;
  /// Tensors that stay replicated because all labels share them.
  std::vector<TensorRef> replicated;
  /// Results that are partial sums; each needs an all-reduce.
  llvm::SmallVector<mlir::OpResult> partialSums;
  /// Operands of `partialSums` that are added to the sum, so that only one rank may add them.
  llvm::SmallVector<mlir::OpOperand *> addOnce;
  /// Uses that need the whole of a sharded operand; each needs an all-gather. Everything except for operators
  /// of the function's own body needs whole operands: control flow and the operations in it, states, lists
  /// with uses other than operators.
  llvm::SmallVector<mlir::OpOperand *> gathers;
  /// Results that their operator, run on its sharded operands, gives sharded in one dimension, while the
  /// group shards another dimension of them. Each needs an all-gather and a slice, or an all-to-all. For a
  /// list of tensors, any of its items.
  llvm::SmallVector<mlir::OpResult> reshards;
  /// Sharded operands of the function's return; each needs an all-gather unless the caller takes shards.
  llvm::SmallVector<mlir::OpOperand *> outputs;

  /// True if a rank holds the indices with this label. `hasLabel` says which of the labels 0 … count − 1 the
  /// rank has.
  bool isOnRank(int32_t label, llvm::function_ref<bool(int32_t)> hasLabel) const {
    return label == LabelledDim::kReplicated ||
           (label < count ? hasLabel(label) : llvm::any_of(shared[label - count], hasLabel));
  }
};

/// A call of an operator, with the facts that sharding needs.
struct AnalyzedCall {
  OperatorOp op;
  /// Dimensions whose sizes depend on dynamic dimensions have NeedsReplication factors.
  std::optional<OpShardingRule> rule;
  std::optional<IndexMap> indexMap;
  /// Operands in the order of `flatOperands`, and the tensors that they are; a null value for an operand that
  /// is no tensor.
  llvm::SmallVector<mlir::OpOperand *> uses;
  llvm::SmallVector<TensorRef> operands, results;
};

/// A function, analyzed once, in which shardings are propagated any number of times. Its tensors must have
/// types. Dimensions whose sizes depend on dynamic dimensions are never sharded.
class AnalyzedFunction {
public:
  using Call = AnalyzedCall;
  explicit AnalyzedFunction(mlir::func::FuncOp function);

  /// Shards dimension `dim` of `tensor` and all dimensions that follow. Where a view takes a dimension apart
  /// into several factors, the choice of factor that gives at least `ranks` labels and needs the fewest
  /// gathers and reshards wins. A tensor that the group would have to gather is replicated instead if at
  /// least half of dimension `dim` stays sharded. The group has one label if nothing can be sharded, and none
  /// if the dimension is dynamic.
  /// \param isWhole  tensors that are not to be sharded; the group ends before them.
  ShardingGroup propagate(TensorRef tensor, unsigned dim, int32_t ranks = 2,
                          llvm::function_ref<bool(TensorRef)> isWhole = nullptr) const;

  /// In program order, without calls inside control flow.
  llvm::ArrayRef<Call> getCalls() const { return calls; }
  /// Calls with the tensor as an operand.
  llvm::SmallVector<const Call *> callsTaking(TensorRef tensor) const;
  /// 0 if there is no such dimension, or if it is not static.
  int64_t sizeOf(TensorRef tensor, unsigned dim) const;
  /// Null if the shape is unknown.
  mlir::RankedTensorType typeOf(TensorRef tensor) const;
  /// True if the value is a weight, or computed from weights and constants alone.
  bool isMadeOfWeights(mlir::Value value) const { return madeOfWeights.contains(value); }
  /// Bytes at the example sizes; 0 if they are unknown.
  int64_t bytesOf(TensorRef tensor) const;

  /// The tensor of a value, after looking through boundaries and from items of lists and tuples to their
  /// makers.
  static TensorRef tensorOf(mlir::Value value);
  /// True if the only use of a list or tuple is to take items by constant index.
  static bool isTakenByItems(mlir::Value list);

private:
  friend class ShardingPropagator;
  void collectItems();
  void findMadeOfWeights();
  void linkGradients(mlir::func::FuncOp function);
  void addCall(OperatorOp op, const ExampleShapes &probes);
  bool hasDynamic(const Call &call, unsigned dim) const;
  void replicateDynamic(Call &call) const;
  void findOtherUses(mlir::Value value, std::optional<unsigned> item, ShardingGroup &found) const;

  mlir::Block *body;
  ExampleShapes shapes;
  /// `items`: by item of a list or tuple, a value that is the item. `itemCounts`: number of items taken.
  llvm::DenseMap<TensorRef, mlir::Value> items;
  llvm::DenseMap<mlir::Value, unsigned> itemCounts;
  llvm::DenseSet<mlir::Value> madeOfWeights;
  std::vector<Call> calls;
  llvm::DenseMap<TensorRef, llvm::SmallVector<unsigned>> callsOf;
  /// Weights and their gradients that are sharded alike (kShardedAsAttr), by each other.
  llvm::DenseMap<TensorRef, TensorRef> links;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_SHARDINGPROPAGATION_H
