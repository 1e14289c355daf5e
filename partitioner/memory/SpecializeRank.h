//===- SpecializeRank.h - What one rank of a tensor group runs --*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MEMORY_SPECIALIZERANK_H
#define CLEAVE_PARTITIONER_MEMORY_SPECIALIZERANK_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Gives a function that partition-spmd has made the constants, the parts of weights and the types of rank
/// `rank`.
mlir::LogicalResult specializeRank(mlir::func::FuncOp function, unsigned rank);

/// By tensor rank: the first one whose values are of the same sizes. What rank 0 alone gathers or adds makes
/// no difference: those that are like it may hold less.
std::vector<unsigned> ranksOfSameSizes(mlir::func::FuncOp function, unsigned ranks);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MEMORY_SPECIALIZERANK_H
