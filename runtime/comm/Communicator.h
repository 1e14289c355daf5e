//===- Communicator.h - A rank in its group ---------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_COMMUNICATOR_H
#define CLEAVE_RUNTIME_COMM_COMMUNICATOR_H

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <numeric>
#include <vector>

namespace cleave::runtime {

/// Communicator of one rank in a group: tensor-parallel or data-parallel ranks, or those that share a tied
/// weight. All ranks of the group call the same collectives in the same order. collectives/Collectives.h
/// defines the results, and what ranges and pieces are. Reductions add element by element in rank order, and
/// in float32 for narrower floats, so results are bitwise deterministic; an all-reduce over NCCL adds in the
/// order that NCCL chooses. Throws c10::Error where ranks disagree, when the request fails meanwhile, and at
/// its deadline.
class Communicator {
public:
  virtual ~Communicator() = default;
  virtual at::Tensor allReduce(const at::Tensor &tensor) = 0;
  virtual at::Tensor allGather(const at::Tensor &tensor, int64_t dim, at::IntArrayRef pieces) = 0;
  virtual at::Tensor reduceScatter(const at::Tensor &tensor, int64_t dim, at::IntArrayRef ranges) = 0;
  virtual at::Tensor allToAll(const at::Tensor &tensor, int64_t from, at::IntArrayRef pieces, int64_t to,
                              at::IntArrayRef ranges) = 0;
  virtual at::Tensor broadcast(const at::Tensor &tensor, int64_t root) = 0;
};

/// `first` and the `count - 1` ranks behind it.
inline std::vector<uint32_t> consecutiveRanks(uint32_t first, uint32_t count) {
  std::vector<uint32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_COMMUNICATOR_H
