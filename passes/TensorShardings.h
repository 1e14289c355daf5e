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

/// On a weight: its style, such as `colwise`.
inline constexpr llvm::StringLiteral kStyleAttr = "cleave.style";
/// On a weight: a user asked for the style.
inline constexpr llvm::StringLiteral kUserConstraintAttr = "cleave.user_constraint";
/// On a weight that stays whole because sharding it would cost more time than it saves.
inline constexpr llvm::StringLiteral kNotWorthShardingAttr = "cleave.not_worth_sharding";
/// On a weight that is a seed: the dimension, the seed's place in the order of seeds, and whether the
/// sharding group ends at the weight.
inline constexpr llvm::StringLiteral kSplitAttr = "cleave.split";
inline constexpr llvm::StringLiteral kSplitOrderAttr = "cleave.split_order";
inline constexpr llvm::StringLiteral kSplitCutAttr = "cleave.split_cut";
/// On the function, for the plan: by seed, a dictionary that describes its sharding group.
inline constexpr llvm::StringLiteral kDimensionsAttr = "cleave.dimensions";
/// On the function, for the plan: seconds of the collectives of all sharding groups, and a lower bound.
inline constexpr llvm::StringLiteral kCommunicationAttr = "cleave.communication";
/// On the function: the memory limits that lead to the same decision, as a half-open range.
inline constexpr llvm::StringLiteral kShardingLimitsAttr = "cleave.sharding_limits";
inline constexpr llvm::StringLiteral kShardingsAttr = "cleave.shardings";

/// Fails on an attribute that no earlier pass could have left: with another number of ranks than the
/// function's, or with indices that the tensor does not have.
mlir::LogicalResult checkShardings(mlir::func::FuncOp function);
/// Null for a whole tensor, and for arguments.
ShardingAttr shardingOf(TensorRef tensor);
void setSharding(TensorRef tensor, ShardingAttr sharding);

} // namespace cleave

#endif // CLEAVE_PASSES_TENSORSHARDINGS_H
