//===- UsedValues.h - Values that an operation reads ------------*- C++ -*-===//
#ifndef CLEAVE_IR_USEDVALUES_H
#define CLEAVE_IR_USEDVALUES_H

#include "mlir/IR/Operation.h"

namespace cleave {

/// Operands of the operation, and the values from outside that its regions use.
llvm::SmallVector<mlir::Value> usedValues(mlir::Operation *op);

} // namespace cleave

#endif // CLEAVE_IR_USEDVALUES_H
