//===- ShapeInference.h - Types and sizes of every value --------*- C++ -*-===//
#ifndef CLEAVE_IR_INFERENCE_SHAPEINFERENCE_H
#define CLEAVE_IR_INFERENCE_SHAPEINFERENCE_H

#include "ir/ExampleShapes.h"
#include "ir/SymbolicDim.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// What is known of a function's values without weights or inputs.
struct InferredValues {
  /// Tensor types with sizes and strides; values that are missing could not be inferred.
  llvm::DenseMap<mlir::Value, mlir::RankedTensorType> tensors;
  /// Integers that depend on the sizes of the inputs alone.
  llvm::DenseMap<mlir::Value, SymbolicDim> sizes;
  /// The same for lists of integers, such as the result of aten.size.
  llvm::DenseMap<mlir::Value, std::vector<SymbolicDim>> sizeLists;
  /// Bools, floats and strings that depend on sizes alone and are the same at all of them.
  llvm::DenseMap<mlir::Value, mlir::Attribute> constants;
  /// Memory behind each tensor, or behind the tensors of a list, at the traced sizes: values with an id in
  /// common share it.
  struct Storage {
    unsigned id;
    int64_t bytes;
  };
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Storage, 1>> storages;
  /// Of named dimensions that do not run at every size.
  llvm::StringMap<SizeLimits> limits;
  /// A call that could not be run without data.
  struct Unknown {
    mlir::Operation *op;
    std::string reason;
    /// It fails on any data: the CPU's kernel refuses operands of these types.
    bool alwaysFails;
  };
  /// In program order.
  std::vector<Unknown> unknown;
};

/// Runs `function` on tensors without data (PyTorch's meta device) at the traced sizes of its named
/// dimensions and at a few others, and reads types, strides and size arithmetic off. Sizes are then
/// expressions that hold at all of them. Where the program fails at some sizes, those are searched at which
/// it runs: from a least one on (a convolution's kernel), up to a greatest one (a table of positions), or at
/// those that have a divisor in common with the traced one (a U-Net's sides). Where there is no other, it
/// fails, with a diagnostic at the operator: there a dimension is fixed that was declared dynamic.
mlir::FailureOr<InferredValues> inferShapes(mlir::func::FuncOp function);

/// The same at the traced sizes alone: one run, where `inferShapes` has confirmed the others.
mlir::FailureOr<InferredValues> inferExampleShapes(mlir::func::FuncOp function);

/// Adds kernels for the meta device that libtorch lacks in C++; idempotent. For each, strides are those of
/// the CPU's.
void registerMetaKernels();

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_SHAPEINFERENCE_H
