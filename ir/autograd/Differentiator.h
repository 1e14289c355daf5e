//===- Differentiator.h - Gradients of one function -------------*- C++ -*-===//
//
// Private to ir/autograd/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_AUTOGRAD_DIFFERENTIATOR_H
#define CLEAVE_IR_AUTOGRAD_DIFFERENTIATOR_H

#include "ir/Signature.h"
#include "ir/autograd/CallBuilder.h"
#include "ir/autograd/Differentiate.h"
#include "ir/autograd/VjpBuilder.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave {

/// True if the operation, or one inside it, has an operand among the values.
bool usesAny(mlir::Operation *op, const llvm::DenseSet<mlir::Value> &values);

/// One run over a function. Gradients are found from the last operation to the first.
class Differentiator {
public:
  Differentiator(mlir::func::FuncOp function, const DerivativeOptions &options, Samples &samples)
      : function(function), options(options), samples(samples), rules(samples),
        builder(samples, function.getContext()) {}

  mlir::LogicalResult run();
  /// See addVjp.
  mlir::FailureOr<llvm::SmallVector<std::optional<unsigned>>> runVjp(llvm::ArrayRef<unsigned> results,
                                                                     const std::vector<bool> &wanted);

private:
  const c10::IValue *exampleOf(mlir::Value value) const { return builder.exampleOf(value); }
  bool isDifferentiable(TensorRef tensor) const;
  bool isTrainable(ParamOp param) const;
  /// Empty if it has no name.
  llvm::StringRef nameOf(mlir::BlockArgument argument) {
    auto name = function.getArgAttrOfType<mlir::StringAttr>(argument.getArgNumber(), kNameAttr);
    return name ? name.getValue() : llvm::StringRef();
  }
  /// Why the type of the loss is not known without data.
  std::string reasonOfUnknown() const;
  mlir::LogicalResult checkLoss(unsigned index);
  /// Propagates requires-grad forward through the function.
  void findRequiresGrad();
  /// The tensors that a value holds: itself, or the items of a list; nothing if it holds others.
  std::optional<llvm::SmallVector<TensorRef>> tensorsIn(mlir::Value value) const;
  std::optional<llvm::SmallVector<TensorRef>> tensorsIn(mlir::ValueRange values) const;
  mlir::Value gradientOf(TensorRef tensor) const;
  void accumulate(TensorRef tensor, mlir::Value gradient);
  bool hasGradient(mlir::Operation *op) const;
  mlir::LogicalResult visit(mlir::Operation *op);
  mlir::LogicalResult visitCall(OperatorOp op);
  /// Adds gradients of the operands, by a `cleave.vjp` of the operation.
  mlir::LogicalResult differentiateByAutograd(mlir::Operation *op, llvm::ArrayRef<TensorRef> results,
                                              llvm::StringRef reason);
  /// Replaces a loss whose type depends on data by that of a `cleave.vjp` of all operations of such types
  /// that it depends on.
  mlir::LogicalResult replaceLossByVjp(unsigned index);
  mlir::FailureOr<VjpBuilder::Built> buildVjp(llvm::ArrayRef<mlir::Operation *> operations,
                                              llvm::ArrayRef<TensorRef> outputs, mlir::ValueRange gradOutputs,
                                              llvm::StringRef reason, mlir::RankedTensorType scalarType = {});
  mlir::Value contiguous(mlir::Value tensor);
  /// Builds the forward calls of a rule in the place of the operation, which is erased.
  mlir::LogicalResult replace(OperatorOp op, const BackwardRule &rule,
                              llvm::function_ref<mlir::Value(RuleTensor)> valueOf,
                              std::vector<llvm::SmallVector<mlir::Value>> &made);
  void dropOtherResults();
  void addResults();

  mlir::func::FuncOp function;
  const DerivativeOptions &options;
  Samples &samples;
  BackwardRules rules;
  CallBuilder builder;
  llvm::DenseSet<mlir::Value> requiresGrad;
  /// Operations that are copied into the `cleave.vjp` that gives the loss.
  llvm::DenseSet<mlir::Operation *> operationsOfLossVjp;
  llvm::DenseMap<mlir::Value, mlir::Value> gradients;
  /// Of the items of lists and tuples; null where there is none.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> itemGradients;
};

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_DIFFERENTIATOR_H
