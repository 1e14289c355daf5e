//===- TensorShardings.h - Shardings as attributes of operations -*- C++ -*-===//
//
// Between annotate-sharding and partition-spmd: what is known of an operation's tensors stands in its
// attribute `cleave.shardings`, an entry a result, or an item of the one result that is a list; `unit` for a
// whole tensor.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PASSES_TENSORSHARDINGS_H
#define CLEAVE_PASSES_TENSORSHARDINGS_H

#include "partitioner/sharding/Sharding.h"

namespace cleave {

inline constexpr llvm::StringLiteral kShardingsAttr = "cleave.shardings";

/// Fails where an attribute is none that a pass before would have left: other ranks than the function's, or
/// positions that a tensor does not have.
mlir::LogicalResult checkShardings(mlir::func::FuncOp function);
/// Null for a whole tensor, and for arguments.
ShardingAttr shardingOf(TensorRef tensor);
void setSharding(TensorRef tensor, ShardingAttr sharding);

} // namespace cleave

#endif // CLEAVE_PASSES_TENSORSHARDINGS_H
