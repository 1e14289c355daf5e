//===- LossResult.h - Which result is the loss ------------------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_LOSSRESULT_H
#define CLEAVE_IR_AUTOGRAD_LOSSRESULT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>

namespace cleave {

/// The result that is the loss: the one called `name`, or whose name ends with a dot and `name`; without a
/// name the only result, or else `loss`. Nothing, with a diagnostic, if none is, or several may be.
std::optional<unsigned> indexOfLoss(mlir::func::FuncOp function, llvm::StringRef name);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_LOSSRESULT_H
