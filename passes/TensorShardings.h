//===- TensorShardings.h - Shardings as attributes of operations -*- C++ -*-===//
//
// Between annotate-sharding and partition-spmd, the attribute `cleave.shardings` of an operation holds the
// shardings of its results, or of the items of its one result that is a list. An entry is `unit` for a whole
// tensor.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PASSES_TENSORSHARDINGS_H
#define CLEAVE_PASSES_TENSORSHARDINGS_H

#include "partitioner/sharding/Sharding.h"

namespace cleave {

inline constexpr llvm::StringLiteral kShardingsAttr = "cleave.shardings";

/// Fails on an attribute that no earlier pass could have left: with another number of ranks than the
/// function's, or with indices that the tensor does not have.
mlir::LogicalResult checkShardings(mlir::func::FuncOp function);
/// Null for a whole tensor, and for arguments.
ShardingAttr shardingOf(TensorRef tensor);
void setSharding(TensorRef tensor, ShardingAttr sharding);

} // namespace cleave

#endif // CLEAVE_PASSES_TENSORSHARDINGS_H
