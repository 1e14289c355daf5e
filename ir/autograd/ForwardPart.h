//===- ForwardPart.h - What is no backward pass -----------------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_FORWARDPART_H
#define CLEAVE_IR_AUTOGRAD_FORWARDPART_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave {

/// The operations of the function's body that results other than sharded gradients (kShardedAsAttr) depend
/// on, and those with effects: the forward pass of a function that `differentiate` has changed, and all
/// operations in use of any other function.
llvm::DenseSet<mlir::Operation *> forwardOperations(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_FORWARDPART_H
