//===- DifferentiableForms.h - Before operations are differentiated -*- C++ -*-===//
//
// Private to ir/autograd/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_AUTOGRAD_DIFFERENTIABLEFORMS_H
#define CLEAVE_IR_AUTOGRAD_DIFFERENTIABLEFORMS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Replaces operators with an OpSemantics::differentiableForm by that.
void useDifferentiableForms(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_DIFFERENTIABLEFORMS_H
