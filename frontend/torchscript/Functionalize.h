//===- Functionalize.h - In-place operators without writing -----*- C++ -*-===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_FUNCTIONALIZE_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_FUNCTIONALIZE_H

#include "frontend/torchscript/WeightTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Replaces operators that write an argument (`aten.add_.Tensor`) by those that do not (`aten.add.Tensor`),
/// and lets every later use of the tensor, of what it is a view of, of other views of that, and of lists and
/// tuples that hold one of them see the new value. A weight that is written becomes a state (`cleave.state`,
/// `cleave.update`), and so do the statistics of a batch norm that trains. What cannot be said without
/// writing is refused with operator and module path: writing a constant, a weight that shares memory with
/// another, a value from outside the region, through a view that has no inverse, a tensor that may or may not
/// share memory with one that is used later, and `out=`. Afterwards no operator writes a tensor.
mlir::LogicalResult functionalize(mlir::func::FuncOp function, const WeightTable &weights);

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_FUNCTIONALIZE_H
