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

/// A tensor: a value, or item `item` of a value that is a list or tuple.
struct TensorRef {
  mlir::Value value;
  std::optional<unsigned> item;
};

/// Items of a list or tuple.
c10::ArrayRef<c10::IValue> itemsOf(const c10::IValue &aggregate);

/// Copies operations whose backward pass is not known as IR into a `cleave.vjp`. For one use.
class VjpBuilder {
public:
  /// \param requiresGrad  values whose gradients are wanted where the operations use them.
  VjpBuilder(CallBuilder &builder, const Samples &samples, const llvm::DenseSet<mlir::Value> &requiresGrad)
      : builder(builder), samples(samples), requiresGrad(requiresGrad) {}

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
  mlir::FailureOr<Built> build(llvm::ArrayRef<mlir::Operation *> operations, llvm::ArrayRef<TensorRef> values,
                               mlir::ValueRange gradients, llvm::StringRef reason,
                               mlir::RankedTensorType scalarType = {});

private:
  const c10::IValue *exampleOf(mlir::Value value) const;
  mlir::LogicalResult collect(llvm::ArrayRef<mlir::Operation *> operations);
  void addInputs();
  llvm::SmallVector<mlir::Value> fillBody(mlir::Block &body, llvm::ArrayRef<TensorRef> outputs,
                                          mlir::RankedTensorType scalarType);

  CallBuilder &builder;
  const Samples &samples;
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
