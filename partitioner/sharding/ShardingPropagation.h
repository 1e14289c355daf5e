//===- ShardingPropagation.h - What splitting one dimension entails -*- C++ -*-===//
//
// Splitting a dimension of one tensor over ranks splits dimensions of others with it: the other operand of a
// product, the parts of a fused weight, the heads that a view makes of a width. What goes together is found
// by labels: each position of the dimension that one begins with has a label of its own, labels go with
// positions through every operator as its entry in ir/semantics says, both ways, and where an operator needs
// positions in one place, their labels become one. Whatever gives each label to some rank is then a legal
// split: a shard is the positions with the rank's labels, which in a fused weight are a range in each part,
// and in rows of heads whole heads.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PARTITIONER_SHARDING_SHARDINGPROPAGATION_H
#define CLEAVE_PARTITIONER_SHARDING_SHARDINGPROPAGATION_H

#include "ir/semantics/OpSemantics.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace cleave {

/// A tensor: a value, or an item of one that is a list or tuple.
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

/// The labels of one dimension's positions.
struct ShardAssignment {
  /// Of a position that every rank has.
  static constexpr int32_t kWhole = -1;
  unsigned dim;
  std::vector<int32_t> labels;
};

/// What is split when one dimension is.
struct ShardingGroup {
  /// Labels 0 … count − 1, numbered in the order in which the first dimension has them.
  int32_t count = 0;
  /// Of each label from `count` on: the labels below it that share what has it. It is wherever one of them
  /// is.
  std::vector<std::vector<int32_t>> shared;
  /// Everything that is split, in the order in which it was reached.
  llvm::MapVector<TensorRef, ShardAssignment> tensors;
  /// What stays whole for the others, as they all share it.
  std::vector<TensorRef> whole;
  /// Results that are sums of which each rank has a part: an all-reduce is owed.
  llvm::SmallVector<mlir::OpResult> sums;
  /// Operands of these that are added to the sum, and that only one rank may add.
  llvm::SmallVector<mlir::OpOperand *> addOnce;
  /// Operands that an operation needs whole though they are split: a gather is owed. Whatever is no operator
  /// of the function's own body needs them whole: control flow and what it holds, states, lists that anything
  /// else takes.
  llvm::SmallVector<mlir::OpOperand *> gathers;
  /// Results that operands split in one dimension while the class splits another: a gather and a slice are
  /// owed, or an all-to-all. Of a list of tensors any item.
  llvm::SmallVector<mlir::OpResult> reshards;
  /// Operands of the function's return that are split: a gather is owed unless the caller takes parts.
  llvm::SmallVector<mlir::OpOperand *> outputs;

  /// Whether what has the label is where those of the labels 0 … count − 1 are of which `isThere` says so.
  bool isWhere(int32_t label, llvm::function_ref<bool(int32_t)> isThere) const {
    return label == ShardAssignment::kWhole ||
           (label < count ? isThere(label) : llvm::any_of(shared[label - count], isThere));
  }
};

/// One call of an operator, as far as splitting is concerned.
struct SplittableCall {
  OperatorOp op;
  /// Dimensions whose sizes depend on named ones have Block factors.
  std::optional<DimensionRule> rule;
  std::optional<IndexMap> indexMap;
  /// Operands as `flatOperands` counts them, and the tensors that they are; one of a null value for what is
  /// none.
  llvm::SmallVector<mlir::OpOperand *> uses;
  llvm::SmallVector<TensorRef> operands, results;
};

/// Of one function, whose tensors have types. Dimensions whose sizes depend on named ones are not split.
class ShardingPropagation {
public:
  using Call = SplittableCall;
  explicit ShardingPropagation(mlir::func::FuncOp function);

  /// What splitting dimension `dim` of `tensor` entails, with the fewest gathers and reshards of the ways to
  /// split what a view takes apart into at least `ranks` parts, if there is one; what would be gathered stays
  /// whole where that leaves most of the dimension split. A class of one label where
  /// nothing can be split, of none where the dimension is a named one.
  /// \param isWhole  tensors that are not to be split: the class ends before them.
  ShardingGroup propagate(TensorRef tensor, unsigned dim, int32_t ranks = 2,
                          llvm::function_ref<bool(TensorRef)> isWhole = nullptr) const;

  /// In program order; calls inside of control flow are none of them.
  llvm::ArrayRef<Call> getCalls() const { return calls; }
  /// Those that have the tensor as operand.
  llvm::SmallVector<const Call *> callsTaking(TensorRef tensor) const;
  /// 0 for a dimension that is not there or not static.
  int64_t sizeOf(TensorRef tensor, unsigned dim) const;
  /// Nothing is known of the shape where it is null.
  mlir::RankedTensorType typeOf(TensorRef tensor) const;
  /// Whether the value is a weight, or made of weights and constants alone.
  bool isMadeOfWeights(mlir::Value value) const { return madeOfWeights.contains(value); }
  /// Bytes at the traced sizes; 0 where they are not known.
  int64_t bytesOf(TensorRef tensor) const;

  /// The tensor that a value is: items of lists and tuples are followed to who made them, boundaries are
  /// looked through.
  static TensorRef tensorOf(mlir::Value value);
  /// Whether all that is done with a list or tuple is to take items out that are known by number.
  static bool isTakenByItems(mlir::Value list);

private:
  friend class ShardingPropagator;
  void collectItems();
  void findMadeOfWeights();
  void addCall(OperatorOp op, const ExampleShapes &probes);
  bool hasNamed(const Call &call, unsigned dim) const;
  void blockNamed(Call &call) const;
  void findOtherUses(mlir::Value value, std::optional<unsigned> item, ShardingGroup &found) const;

  mlir::Block *body;
  ExampleShapes shapes;
  /// Of lists and tuples: a value for each item that is taken out of them, and how many items are.
  llvm::DenseMap<TensorRef, mlir::Value> items;
  llvm::DenseMap<mlir::Value, unsigned> itemCounts;
  llvm::DenseSet<mlir::Value> madeOfWeights;
  std::vector<Call> calls;
  llvm::DenseMap<TensorRef, llvm::SmallVector<unsigned>> callsOf;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_SHARDINGPROPAGATION_H
