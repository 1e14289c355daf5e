//===- ForwardPart.h - What is no backward pass -----------------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_FORWARDPART_H
#define CLEAVE_IR_AUTOGRAD_FORWARDPART_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include <optional>

namespace cleave {

/// The operations of the function's body that results other than gradients (kGradientAttr) depend
/// on, and those with effects: the forward pass of a function that `differentiate` has changed, and all
/// operations in use of any other function.
llvm::DenseSet<mlir::Operation *> forwardOperations(mlir::func::FuncOp function);

/// Puts a number into the location of each operation of the body. Its backward operations get that location,
/// so passes that keep locations keep the link.
void numberOperations(mlir::func::FuncOp function);
/// Nothing if the operation has no such number.
std::optional<int64_t> forwardNumberOf(mlir::Operation *op);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_FORWARDPART_H
