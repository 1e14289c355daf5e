//===- Functionalize.h - Functionalization of in-place operators -*- C++ -*-===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_FUNCTIONALIZE_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_FUNCTIONALIZE_H

#include "frontend/torchscript/WeightTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Replaces operators that write an argument (`aten.add_.Tensor`) by functional ones (`aten.add.Tensor`), and
/// makes later uses of the tensor, of its base, of other views of the base, and of lists and tuples with one
/// of them use the new value. A weight that is written becomes a state (`cleave.read_state`,
/// `cleave.write_state`); so do the statistics of a batch norm in training mode. Afterwards no operator
/// writes a tensor.
///
/// Fails, with operator and module path, on writes without a functional equivalent: to a constant, to a
/// weight that shares memory with another, to a value defined outside the region of the write, through a view
/// without an inverse, to a tensor that may share memory with one that is used later, and through `out=`.
mlir::LogicalResult functionalize(mlir::func::FuncOp function, const WeightTable &weights);

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_FUNCTIONALIZE_H
