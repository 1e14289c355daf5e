//===- GroupCall.cpp - The signature of a collective call -----------------===//
#include "runtime/comm/GroupCall.h"
#include "runtime/base/Values.h"

namespace cleave::runtime {

const char *nameOf(GroupOperation operation) {
  switch (operation) {
  case GroupOperation::AllReduce:
    return "all_reduce";
  case GroupOperation::AllGather:
    return "all_gather";
  case GroupOperation::ReduceScatter:
    return "reduce_scatter";
  case GroupOperation::AllToAll:
    return "all_to_all";
  case GroupOperation::Broadcast:
    return "broadcast";
  }
  return "";
}

GroupCall callOf(GroupOperation operation, const at::Tensor &tensor, int64_t dim, int64_t other) {
  return {operation, tensor.scalar_type(), c10::DimVector(tensor.sizes()), dim, other};
}

/// `rank 1 calls all_gather of float32[2, 3] along 0`.
static std::string describe(uint32_t rank, const GroupCall &call) {
  std::string text = "rank " + std::to_string(rank) + " calls " + nameOf(call.operation) + " of " +
                     runtime::describe(call.dtype, call.sizes);
  if (call.operation == GroupOperation::Broadcast)
    return text + " from " + std::to_string(call.other);
  if (call.dim >= 0)
    text += " along " + std::to_string(call.dim);
  return call.other < 0 ? text : text + " to " + std::to_string(call.other);
}

void verifyCollectiveMatch(uint32_t firstRank, uint32_t count,
                           llvm::function_ref<const GroupCall &(uint32_t)> call) {
  const GroupCall &first = call(0);
  const bool gathers =
      first.operation == GroupOperation::AllGather || first.operation == GroupOperation::AllToAll;
  for (uint32_t index = 1; index < count; ++index) {
    const GroupCall &other = call(index);
    bool isSame = other.operation == first.operation && other.dim == first.dim &&
                  other.other == first.other && other.dtype == first.dtype &&
                  other.sizes.size() == first.sizes.size();
    for (size_t dim = 0; isSame && dim < first.sizes.size(); ++dim)
      isSame = (gathers && int64_t(dim) == first.dim) || other.sizes[dim] == first.sizes[dim];
    TORCH_CHECK(isSame, describe(firstRank + index, other), ", ", describe(firstRank, first),
                "; expected the same call on all ranks of a group");
  }
}

} // namespace cleave::runtime
