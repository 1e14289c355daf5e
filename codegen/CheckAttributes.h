//===- CheckAttributes.h - Checks of attributes before emission -*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_CHECKATTRIBUTES_H
#define CLEAVE_CODEGEN_CHECKATTRIBUTES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Fails unless the attributes that a plan is emitted from have the form that passes give them; IR read from
/// text may differ. The error names the first wrong one.
mlir::LogicalResult checkAttributes(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_CODEGEN_CHECKATTRIBUTES_H
