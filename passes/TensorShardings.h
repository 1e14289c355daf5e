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

/// Of a weight, how it is split: a word such as `colwise`.
inline constexpr llvm::StringLiteral kStyleAttr = "cleave.style";
/// … that a user wants it so.
inline constexpr llvm::StringLiteral kUserConstraintAttr = "cleave.user_constraint";
/// On a weight that is whole since splitting it would cost more time than it saves.
inline constexpr llvm::StringLiteral kNotWorthShardingAttr = "cleave.not_worth_sharding";
/// Of a weight that is a seed: the dimension, which seeds come before it, and whether its class ends at once.
inline constexpr llvm::StringLiteral kSplitAttr = "cleave.split";
inline constexpr llvm::StringLiteral kSplitOrderAttr = "cleave.split_order";
inline constexpr llvm::StringLiteral kSplitCutAttr = "cleave.split_cut";
/// On the function, for the plan: what is split, a dictionary a seed.
inline constexpr llvm::StringLiteral kDimensionsAttr = "cleave.dimensions";
/// On the function, for the plan: seconds of the collectives that the decision owes, and what it cannot owe
/// less than.
inline constexpr llvm::StringLiteral kCommunicationAttr = "cleave.communication";
/// On the function: the limits of memory with which the decision is this one, from the first to below the
/// second.
inline constexpr llvm::StringLiteral kShardingLimitsAttr = "cleave.sharding_limits";
inline constexpr llvm::StringLiteral kShardingsAttr = "cleave.shardings";

/// Fails where an attribute is none that a pass before would have left: other ranks than the function's, or
/// positions that a tensor does not have.
mlir::LogicalResult checkShardings(mlir::func::FuncOp function);
/// Null for a whole tensor, and for arguments.
ShardingAttr shardingOf(TensorRef tensor);
void setSharding(TensorRef tensor, ShardingAttr sharding);

} // namespace cleave

#endif // CLEAVE_PASSES_TENSORSHARDINGS_H
