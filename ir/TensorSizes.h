//===- TensorSizes.h - Sizes that sums and products can take ----*- C++ -*-===//
#ifndef CLEAVE_IR_TENSORSIZES_H
#define CLEAVE_IR_TENSORSIZES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Most bytes of one tensor, and of all values of a function together: what is counted of them stays within
/// 64 bits.
inline constexpr int64_t kMostTensorBytes = int64_t(1) << 50, kMostFunctionBytes = int64_t(1) << 60;

/// The most that a named dimension may have in the example inputs.
inline constexpr int64_t kMostTracedSize = (int64_t(1) << 31) - 1;

/// Fails, with a diagnostic at the operation, where a tensor or all together have more bytes at the traced
/// sizes.
llvm::LogicalResult checkTensorSizes(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_IR_TENSORSIZES_H
