//===- KernelKinds.h - Work whose rate is measured by shape -----*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_KERNELKINDS_H
#define CLEAVE_IR_SEMANTICS_KERNELKINDS_H

#include "llvm/ADT/StringRef.h"

namespace cleave {

/// What multiplies matrices in ways of its own. Pointwise: a convolution that is a product in place;
/// strided: one that leaves out places of its input.
enum class GemmKind { Matrix, Pointwise, Convolution, Strided, Attention };
/// As machine files call them.
inline constexpr llvm::StringLiteral kGemmKinds[] = {"matrix", "pointwise", "convolution", "strided",
                                                     "attention"};

/// `count` products of [rows, depth] by [depth, columns]. Of a convolution: images times groups, places of
/// the result, channels of a group's result, channels of its input times taps. Of attention: heads of all
/// samples, queries, keys, width.
struct GemmShape {
  GemmKind kind;
  double count, rows, columns, depth;
  bool operator==(const GemmShape &) const = default;
};

/// What ranks of a group do together.
enum class CollectiveKind { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast };
inline constexpr llvm::StringLiteral kCollectiveKinds[] = {"all_reduce", "all_gather", "reduce_scatter",
                                                           "all_to_all", "broadcast"};

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_KERNELKINDS_H
