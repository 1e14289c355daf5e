//===- TensorSizes.h - Limits of tensor sizes -------------------*- C++ -*-===//
#ifndef CLEAVE_IR_TENSORSIZES_H
#define CLEAVE_IR_TENSORSIZES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Limits of the bytes of one tensor, and of all values of a function together, which keep sums and products
/// within 64 bits.
inline constexpr int64_t kMaxTensorBytes = int64_t(1) << 50, kMaxFunctionBytes = int64_t(1) << 60;

/// Limit of the size of a dynamic dimension in the example inputs.
inline constexpr int64_t kMaxExampleSize = (int64_t(1) << 31) - 1;

/// Fails, with a diagnostic at the operation, if a tensor or all tensors together exceed these limits at the
/// example sizes.
llvm::LogicalResult checkTensorSizes(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_IR_TENSORSIZES_H
