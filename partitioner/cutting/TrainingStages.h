//===- TrainingStages.h - Stages of a backward pass -------------*- C++ -*-===//
//
// The forward pass is cut into stages; the cost of an operation includes its backward pass. A backward
// operation then inherits the stage of its forward operation, and gradients flow to earlier stages.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PARTITIONER_CUTTING_TRAININGSTAGES_H
#define CLEAVE_PARTITIONER_CUTTING_TRAININGSTAGES_H

#include "ir/Cleave.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <optional>

namespace cleave {

/// A function whose results, or additions to sums, are gradients (kGradientAttr).
class TrainingStages {
public:
  /// Nothing if there is no gradient. The function must outlive the result.
  static std::optional<TrainingStages> of(mlir::func::FuncOp function);

  /// A copy without backward operations and gradients, to be cut.
  mlir::func::FuncOp forwardFunction() const { return *copy; }
  /// The operation of the function that an operation of the copy stands for.
  mlir::Operation *originalOf(mlir::Operation *copied) const { return originals.lookup(copied); }
  /// The backward operations of an operation of the copy.
  llvm::ArrayRef<mlir::Operation *> backwardOf(mlir::Operation *copied) const;
  /// Given the stages of forward operations (kStageIndexAttr): sets those of backward operations, and their
  /// phases: backward_weight if only gradients of weights depend on the operation, else backward_input. An
  /// operation that adds to a sum is where its term is.
  ///
  /// The stage of a backward operation is the latest of its forward operation's, of those of the forward
  /// values that it reads, and of those of the backward operations that read its results.
  void assignBackward();

private:
  explicit TrainingStages(mlir::func::FuncOp function) : function(function) {}
  void makeCopy();
  bool isBackward(mlir::Operation *op) const;
  llvm::DenseSet<mlir::Operation *> weightGradientOperations();
  void assignSums();
  void mergeWeightPhaseIntoInput();

  mlir::func::FuncOp function;
  llvm::DenseSet<mlir::Operation *> forwardPart;
  mlir::OwningOpRef<mlir::func::FuncOp> copy;
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> originals;
  /// By number (forwardNumberOf).
  llvm::DenseMap<int64_t, llvm::SmallVector<mlir::Operation *>> backward;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_TRAININGSTAGES_H
