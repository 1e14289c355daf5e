//===- VjpBuilder.h - Operations for PyTorch's autograd ---------*- C++ -*-===//
//
// Private to ir/autograd/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_AUTOGRAD_VJPBUILDER_H
#define CLEAVE_IR_AUTOGRAD_VJPBUILDER_H

#include "ir/autograd/CallBuilder.h"
#include "llvm/ADT/DenseSet.h"
#include <optional>

namespace cleave {

/// Copies operations whose backward pass is not known as IR into a `cleave.vjp`. Call build once for each
/// object.
class VjpBuilder {
public:
  /// \param requiresGrad  values whose gradients are wanted where the operations use them.
  VjpBuilder(CallBuilder &builder, const llvm::DenseSet<mlir::Value> &requiresGrad)
      : builder(builder), requiresGrad(requiresGrad) {}

  struct Built {
    VjpOp op;
    /// Tensors whose gradients are the first results of `op`.
    llvm::SmallVector<TensorRef> inputs;
  };
  /// Inserts a `cleave.vjp` at the builder's insertion point.
  /// \param operations  of one block, in program order; parameters inside their regions are moved in front of
  /// them.
  /// \param outputs  results of `operations`; `gradOutputs`: their gradients.
  /// \param scalarType  if given, there is one output, a tensor of one element, and the op gives it as a 0-d
  /// tensor of this type.
  /// Fails with a diagnostic at an in-place write, and at a list or dictionary that is changed after it is
  /// made.
  mlir::FailureOr<Built> build(llvm::ArrayRef<mlir::Operation *> operations,
                               llvm::ArrayRef<TensorRef> outputs, mlir::ValueRange gradOutputs,
                               llvm::StringRef reason, mlir::RankedTensorType scalarType = {});

private:
  mlir::LogicalResult collect(llvm::ArrayRef<mlir::Operation *> operations);
  mlir::LogicalResult addInputs(mlir::Location location);
  llvm::SmallVector<mlir::Value> fillBody(mlir::Block &body, llvm::ArrayRef<TensorRef> outputs,
                                          mlir::RankedTensorType scalarType);

  CallBuilder &builder;
  const llvm::DenseSet<mlir::Value> &requiresGrad;
  /// In the order of the block.
  std::vector<mlir::Operation *> copied;
  /// Values from outside, in the order of their use.
  std::vector<mlir::Value> captured;
  llvm::SmallVector<TensorRef> differentiableInputs;
  llvm::SmallVector<mlir::Value> otherInputs;
};

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_VJPBUILDER_H
