//===- Communicator.h - What ranks of one tensor group exchange -*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_COMMUNICATOR_H
#define CLEAVE_RUNTIME_COMM_COMMUNICATOR_H

#include <ATen/core/Tensor.h>
#include <cstdint>

namespace cleave::runtime {

/// One rank's access to its tensor group. All ranks of the group make the same calls in the same order; what
/// these give, and what ranges and pieces are, stands in collectives/Collectives.h. Sums are made element by
/// element in the order of ranks, in float32 where elements are narrower floats, so that bits depend neither
/// on timing nor on who adds. Throws c10::Error where ranks disagree, when the request fails meanwhile, and
/// at its deadline.
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

/// The communicator of what this thread executes, while the object lives; null for none.
class CommunicatorScope {
public:
  explicit CommunicatorScope(Communicator *communicator);
  ~CommunicatorScope();
  CommunicatorScope(const CommunicatorScope &) = delete;
  CommunicatorScope &operator=(const CommunicatorScope &) = delete;

private:
  Communicator *const outer;
};

/// Gives PyTorch the kernels of the operators of collectives/Collectives.h, which use the communicator of
/// their thread; may be called again.
void registerCollectiveKernels();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_COMMUNICATOR_H
