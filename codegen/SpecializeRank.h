//===- SpecializeRank.h - What one rank of a tensor group runs --*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_SPECIALIZERANK_H
#define CLEAVE_CODEGEN_SPECIALIZERANK_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Gives a function that partition-spmd has made the constants, the parts of weights and the types of rank
/// `rank`.
mlir::LogicalResult specializeRank(mlir::func::FuncOp function, unsigned rank);

} // namespace cleave

#endif // CLEAVE_CODEGEN_SPECIALIZERANK_H
