//===- ShapeInference.h - Types and sizes of every value --------*- C++ -*-===//
#ifndef CLEAVE_IR_INFERENCE_SHAPEINFERENCE_H
#define CLEAVE_IR_INFERENCE_SHAPEINFERENCE_H

#include "ir/ExampleShapes.h"
#include "ir/SymbolicDim.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Facts about a function's values that hold without weights or inputs.
struct InferredValues {
  /// Tensor types with sizes and strides; a value without an entry could not be inferred.
  llvm::DenseMap<mlir::Value, mlir::RankedTensorType> tensors;
  /// Integers that depend only on the inputs' sizes.
  llvm::DenseMap<mlir::Value, SymbolicDim> sizes;
  /// Lists of integers that depend only on the inputs' sizes, such as the result of aten.size.
  llvm::DenseMap<mlir::Value, std::vector<SymbolicDim>> sizeLists;
  /// Bools, floats and strings that depend only on sizes and are the same at all sizes tried.
  llvm::DenseMap<mlir::Value, mlir::Attribute> constants;
  /// Storages of each tensor, or of the tensors of a list, at the example sizes. Values that share an id
  /// share memory.
  struct Storage {
    unsigned id;
    int64_t bytes;
  };
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Storage, 1>> storages;
  /// By dynamic dimension: limits if it does not run at every size.
  llvm::StringMap<SizeLimits> limits;
  /// A call that could not be run without data.
  struct Unknown {
    mlir::Operation *op;
    std::string reason;
    /// The call fails on any data: the CPU kernel refuses operands of these types.
    bool alwaysFails;
  };
  /// In program order.
  std::vector<Unknown> unknown;
};

/// Runs `function` on PyTorch's meta device at the example sizes of its dynamic dimensions and at a few
/// others, and reads types, strides and size arithmetic off. Sizes become expressions that hold at all
/// samples.
///
/// If the program fails at some sizes, the search looks for the sizes at which it runs: from a minimum on (a
/// convolution's kernel), up to a maximum (a table of positions), or multiples of a divisor (the sides of a
/// U-Net's images). If it runs at no other size, inferShapes fails with a diagnostic at the operator: a
/// dimension that was declared dynamic is fixed there.
mlir::FailureOr<InferredValues> inferShapes(mlir::func::FuncOp function);

/// Infers values at the example sizes only, in one run; for functions whose other sizes `inferShapes` has
/// confirmed.
mlir::FailureOr<InferredValues> inferExampleShapes(mlir::func::FuncOp function);

/// Registers meta kernels that libtorch lacks in C++; idempotent. Their strides are those of the CPU kernels.
void registerMetaKernels();

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_SHAPEINFERENCE_H
