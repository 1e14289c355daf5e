//===- KernelKinds.h - Kernels whose rates depend on shape ------*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_KERNELKINDS_H
#define CLEAVE_IR_SEMANTICS_KERNELKINDS_H

#include "llvm/ADT/StringRef.h"

namespace cleave {

/// Kinds of contractions whose kernels have rates of their own. Pointwise: a convolution that is a
/// matrix multiplication without a copy. Strided: a convolution that skips indices of its input.
enum class GemmKind { Matrix, Pointwise, Convolution, Strided, Attention };
/// Names in machine files.
inline constexpr llvm::StringLiteral kGemmKinds[] = {"matrix", "pointwise", "convolution", "strided",
                                                     "attention"};

/// A batched GEMM: `count` (batch) multiplications of [rows, depth] by [depth, columns] (M = rows, N =
/// columns, K = depth). Convolution: count is images times groups, rows are positions of the result, columns
/// a group's output channels, depth its input channels times taps. Attention: count is heads of all samples,
/// then queries, keys and head width.
struct GemmShape {
  GemmKind kind;
  double count, rows, columns, depth;
  bool operator==(const GemmShape &) const = default;
};

/// Collectives among the ranks of a tensor-parallel group.
enum class CollectiveKind { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast };
inline constexpr llvm::StringLiteral kCollectiveKinds[] = {"all_reduce", "all_gather", "reduce_scatter",
                                                           "all_to_all", "broadcast"};

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_KERNELKINDS_H
