//===- ShardingPropagation.h - What splitting one dimension entails -*- C++ -*-===//
//
// Splitting a dimension of one tensor over ranks splits dimensions of others with it: the other operand of a product, the
// parts of a fused weight, the heads that a view makes of a width. What goes together is found by labels: each position of
// the dimension that one begins with has a label of its own, labels go with positions through every operator as its entry
// in ir/semantics says, both ways, and where an operator needs positions in one place, their labels become one.
// Whatever gives each label to some rank is then a legal split: a shard is the positions with the rank's labels, which in a
// fused weight are a range in each part, and in rows of heads whole heads.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PARTITIONER_SHARDINGPROPAGATION_H
#define CLEAVE_PARTITIONER_SHARDINGPROPAGATION_H

#include "ir/semantics/OpSemantics.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace cleave {

/// A tensor: a value, or an item of one that is a list or tuple.
struct TensorRef {
  mlir::Value value;
  unsigned item = 0;
  bool operator==(const TensorRef &) const = default;
};

/// The labels of one dimension's positions.
struct Labelling {
  /// Of a position that every rank has.
  static constexpr int32_t kWhole = -1;
  unsigned dim;
  std::vector<int32_t> labels;
};

/// What is split when one dimension is.
struct SplitClass {
  /// Labels 0 … count − 1, numbered in the order in which the first dimension has them.
  int32_t count = 0;
  /// Everything that is split, in the order in which it was reached.
  llvm::MapVector<TensorRef, Labelling> tensors;
  /// Results that are sums of which each rank has a part: an all-reduce is owed.
  llvm::SmallVector<mlir::OpResult> sums;
  /// Operands that an operation needs whole though they are split: a gather is owed.
  llvm::SmallVector<mlir::OpOperand *> gathers;
};

/// Of one function, whose tensors have types. Named dimensions have the sizes of the example inputs and are not split.
class ShardingPropagation {
public:
  explicit ShardingPropagation(mlir::func::FuncOp function);

  /// What splitting dimension `dim` of `tensor` entails; a class of one label where nothing can be split.
  SplitClass propagate(TensorRef tensor, unsigned dim) const;

private:
  friend class LabelFlow;
  /// What is known of one call.
  struct Call {
    OperatorOp op;
    std::optional<DimensionRule> rule;
    std::optional<PositionRule> positions;
    /// Operands as `flatOperands` counts them, and the tensors that they are.
    llvm::SmallVector<mlir::OpOperand *> uses;
    llvm::SmallVector<TensorRef> operands, results;
  };
  static TensorRef origin(mlir::Value value);
  int64_t sizeOf(TensorRef tensor, unsigned dim) const;

  TracedShapes shapes;
  std::vector<Call> calls;
  llvm::DenseMap<TensorRef, llvm::SmallVector<unsigned>> callsOf;
};

} // namespace cleave

template <> struct llvm::DenseMapInfo<cleave::TensorRef> {
  using Pair = llvm::DenseMapInfo<std::pair<mlir::Value, unsigned>>;
  static cleave::TensorRef getEmptyKey() { return {llvm::DenseMapInfo<mlir::Value>::getEmptyKey(), 0}; }
  static cleave::TensorRef getTombstoneKey() { return {llvm::DenseMapInfo<mlir::Value>::getTombstoneKey(), 0}; }
  static unsigned getHashValue(const cleave::TensorRef &ref) { return Pair::getHashValue({ref.value, ref.item}); }
  static bool isEqual(const cleave::TensorRef &left, const cleave::TensorRef &right) { return left == right; }
};

#endif // CLEAVE_PARTITIONER_SHARDINGPROPAGATION_H
