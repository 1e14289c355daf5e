//===- Collectives.h - Operators between the ranks of a group ---*- C++ -*-===//
//
// The collectives of tensor parallelism are operators of the namespace `spmd`; all ranks of a tensor-parallel
// group call them in the same order. A *range* is an (offset, size) pair of indices along a dimension, a
// *piece* a (rank, offset, size) triple: a range of what that rank gave. Results are contiguous tensors of
// their own.
//
//   all_reduce(Tensor x) -> Tensor                                the sum, made in the order of ranks
//   all_gather(Tensor x, int dim, int[] pieces) -> Tensor         the pieces, one after the other
//   reduce_scatter(Tensor x, int dim, int[] ranges) -> Tensor     the caller's own ranges of the sum
//   all_to_all(Tensor x, int from, int[] pieces, int to, int[] ranges) -> Tensor
//                                                                 the caller's ranges along `to` of
//                                                                 all_gather(x, from, pieces)
//   broadcast(Tensor x, int root) -> Tensor                       what rank `root` gave
//
// One operator of the namespace is local, and communicates nothing:
//
//   shard(Tensor x, int dim, int[] ranges) -> Tensor              a slice: these ranges of the caller's
//   tensor
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_COLLECTIVES_COLLECTIVES_H
#define CLEAVE_COLLECTIVES_COLLECTIVES_H

#include <ATen/core/Tensor.h>

namespace cleave {

/// Registers the operators and their meta kernels; may be called again. The runtime has the kernels that
/// communicate; `shard`'s kernel is here. The program does not say which group a call is for: a rank has one.
void registerCollectives();

/// A tensor's ranges along `dim`, in order. Throws c10::Error if the tensor has no such dimension or range.
at::Tensor shard(const at::Tensor &tensor, int64_t dim, at::IntArrayRef ranges);

/// Sum of the sizes of ranges (`width` 2) or pieces (3), checked: whole tuples, nothing negative.
int64_t extentOf(at::IntArrayRef list, size_t width);

/// The sizes of `tensor` with `extent` along `dim`.
std::vector<int64_t> sizesWith(const at::Tensor &tensor, int64_t dim, int64_t extent);

} // namespace cleave

#endif // CLEAVE_COLLECTIVES_COLLECTIVES_H
