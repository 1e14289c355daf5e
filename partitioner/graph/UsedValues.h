//===- UsedValues.h - What an operation reads -------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_GRAPH_USEDVALUES_H
#define CLEAVE_PARTITIONER_GRAPH_USEDVALUES_H

#include "mlir/IR/Operation.h"

namespace cleave {

/// Values that the operation uses: operands, and what its regions use from outside.
llvm::SmallVector<mlir::Value> usedValues(mlir::Operation *op);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_GRAPH_USEDVALUES_H
