//===- CheckAttributes.h - What plans are emitted from ----------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_CHECKATTRIBUTES_H
#define CLEAVE_CODEGEN_CHECKATTRIBUTES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// That the attributes a plan is emitted from have the form in which passes leave them, which text need not
/// have; else an error that names the first that has not.
mlir::LogicalResult checkAttributes(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_CODEGEN_CHECKATTRIBUTES_H
