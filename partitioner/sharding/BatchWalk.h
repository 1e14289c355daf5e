//===- BatchWalk.h - What operations do with the batch ----------*- C++ -*-===//
//
// Private to partitioner/sharding/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PARTITIONER_SHARDING_BATCHWALK_H
#define CLEAVE_PARTITIONER_SHARDING_BATCHWALK_H

#include "ir/semantics/OpSemantics.h"
#include "partitioner/sharding/BatchAnalysis.h"
#include "partitioner/sharding/TokenPermutation.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave {

/// How a size depends on the batch.
enum class Dependence { None, Proportional, Other };

/// How the size `text`, an expression of symbols, depends on the symbol `name`.
Dependence dependenceOf(llvm::StringRef text, llvm::StringRef name);

/// Dimensions of a tensor's type as text; empty for static and unknown dimensions.
llvm::ArrayRef<std::string> dimsOf(mlir::Type type);

/// Follows the batch through a function, whose operations are visited in program order.
class BatchWalk {
public:
  using Found = std::optional<BatchObstacle>;

  /// \param name  the dimension that is the batch.
  /// \param allowsRandom  random numbers may be others for each part.
  BatchWalk(mlir::func::FuncOp function, llvm::StringRef name, bool allowsRandom = false);

  /// What prevents the function from being split; see findBatchObstacle.
  Found run();
  /// Why the function's inputs cannot be split.
  Found checkInputs();
  /// Returns why running `op` on parts of the batch would not give the parts of its results; nothing if it
  /// would.
  Found visit(mlir::Operation *op);

  Found obstacle(mlir::Operation *op, const llvm::Twine &reason) const {
    return BatchObstacle{op, reason.str()};
  }
  /// True if the batch is among the dimensions of the value, a tensor or a list of tensors.
  bool holds(mlir::Value value) const;
  /// True if the value is a number that depends on the batch's size.
  bool isOfBatchSize(mlir::Value value) const { return numbers.contains(value); }
  /// True if it is proportional to the batch's size.
  bool isProportionalToBatchSize(mlir::Value value) const;
  /// True if running parts of the batch and concatenating does not give this value of the whole batch: it
  /// depends on a sort of the batch's rows, or holds indices of rows.
  bool dependsOnSplit(mlir::Value value) const {
    return permutation.sortOf(value) || positions.contains(value);
  }
  /// How the results of parts give the result of the call, which reduces over the batch in all operands that
  /// hold it; nothing if it does not.
  std::optional<Reduction> reductionOf(OperatorOp op) const;

private:
  std::optional<unsigned> dimensionIn(mlir::Value value) const {
    auto list = lists.find(value);
    return list != lists.end() ? list->second : dimensionHolding(value.getType(), name);
  }
  bool isOneRowPerSample(mlir::Value tensor, unsigned dim) const;
  Found visitRegions(mlir::Operation *op);
  Found visitState(ReadStateOp state) const;
  Found visitUpdate(WriteStateOp update) const;
  void visitAggregate(mlir::Operation *op);
  Found visitItems(mlir::Operation *op);
  Found visitOperator(OperatorOp op);
  Found applyRule(OperatorOp op, llvm::ArrayRef<mlir::Value> operands);
  Found sortObstacle(mlir::Operation *op) const {
    return obstacle(permutation.sortBefore(op), "needs the whole of");
  }
  bool isWholeRange(OperatorOp op) const;
  Found checkSizes(OperatorOp op);
  Found checkOperand(OperatorOp op, const OpShardingRule &rule, llvm::ArrayRef<mlir::Value> operands,
                     unsigned i, std::optional<unsigned> &factor) const;
  Found checkPositions(OperatorOp op, const OpShardingRule &rule, llvm::ArrayRef<mlir::Value> operands);
  Found checkResults(OperatorOp op, const OpShardingRule &rule, std::optional<unsigned> factor);

  mlir::func::FuncOp function;
  llvm::StringRef name;
  ExampleShapes shapes;
  const bool allowsRandom;
  /// Lists of tensors that hold the batch, with its dimension in each item.
  llvm::DenseMap<mlir::Value, unsigned> lists;
  /// Numbers, and lists of numbers, that depend on the batch's size.
  llvm::DenseSet<mlir::Value> numbers;
  /// Tensors whose values are indices of samples or of rows of the batch.
  llvm::DenseSet<mlir::Value> positions;
  TokenPermutation permutation;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_BATCHWALK_H
