//===- Collectives.cpp - Kernels of the operators between ranks -----------===//
#include "collectives/Collectives.h"
#include "runtime/comm/Communicator.h"
#include <torch/library.h>

namespace cleave::runtime {

using at::IntArrayRef;
using at::Tensor;

static thread_local Communicator *current = nullptr;

CommunicatorScope::CommunicatorScope(Communicator *communicator) : outer(current) { current = communicator; }
CommunicatorScope::~CommunicatorScope() { current = outer; }

/// The communicator of this thread.
static Communicator &group() {
  TORCH_CHECK(current, "found no tensor group, expected a plan with tp above 1, whose ranks are one");
  return *current;
}

void registerCollectiveKernels() {
  registerCollectives();
  static const auto kernels = [](c10::DispatchKey key) {
    torch::Library library(torch::Library::IMPL, "spmd", key, __FILE__, __LINE__);
    library.impl("all_reduce", [](const Tensor &tensor) { return group().allReduce(tensor); });
    library.impl("all_gather", [](const Tensor &tensor, int64_t dim, IntArrayRef pieces) {
      return group().allGather(tensor, dim, pieces);
    });
    library.impl("reduce_scatter", [](const Tensor &tensor, int64_t dim, IntArrayRef ranges) {
      return group().reduceScatter(tensor, dim, ranges);
    });
    library.impl("all_to_all",
                 [](const Tensor &tensor, int64_t from, IntArrayRef pieces, int64_t to, IntArrayRef ranges) {
                   return group().allToAll(tensor, from, pieces, to, ranges);
                 });
    library.impl("broadcast",
                 [](const Tensor &tensor, int64_t root) { return group().broadcast(tensor, root); });
    return library;
  };
  static torch::Library onCpu = kernels(c10::DispatchKey::CPU), onCuda = kernels(c10::DispatchKey::CUDA);
}

} // namespace cleave::runtime
