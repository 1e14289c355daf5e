//===- SpecializeRank.h - The program of one tensor-parallel rank -*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MEMORY_SPECIALIZERANK_H
#define CLEAVE_PARTITIONER_MEMORY_SPECIALIZERANK_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Specializes a function after partition-spmd for tensor-parallel rank `rank`: its constants, weight shards
/// and types.
mlir::LogicalResult specializeRank(mlir::func::FuncOp function, unsigned rank);

/// By tensor-parallel rank: the first rank whose values have the same sizes. Values that only rank 0 gathers
/// or adds are ignored, so ranks that count as equal to rank 0 may hold less.
std::vector<unsigned> ranksOfSameSizes(mlir::func::FuncOp function, unsigned ranks);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MEMORY_SPECIALIZERANK_H
