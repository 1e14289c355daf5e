//===- CollectiveCall.cpp - The signature of a collective call ------------===//
#include "runtime/comm/CollectiveCall.h"
#include "runtime/base/Values.h"

namespace cleave::runtime {

const char *nameOf(CollectiveOp operation) {
  switch (operation) {
  case CollectiveOp::AllReduce:
    return "all_reduce";
  case CollectiveOp::AllGather:
    return "all_gather";
  case CollectiveOp::ReduceScatter:
    return "reduce_scatter";
  case CollectiveOp::AllToAll:
    return "all_to_all";
  case CollectiveOp::Broadcast:
    return "broadcast";
  }
  return "";
}

std::optional<CollectiveOp> collectiveOf(llvm::StringRef operatorName) {
  if (!operatorName.consume_front("spmd::"))
    return std::nullopt;
  for (CollectiveOp operation :
       {CollectiveOp::AllReduce, CollectiveOp::AllGather, CollectiveOp::ReduceScatter, CollectiveOp::AllToAll,
        CollectiveOp::Broadcast})
    if (operatorName == nameOf(operation))
      return operation;
  return std::nullopt;
}

CollectiveCall callOf(CollectiveOp operation, const at::Tensor &tensor, int64_t dim, int64_t splitDimOrRoot) {
  return {operation, tensor.scalar_type(), c10::DimVector(tensor.sizes()), dim, splitDimOrRoot};
}

/// `rank 1 calls all_gather of float32[2, 3] along 0`.
static std::string describe(uint32_t rank, const CollectiveCall &call) {
  std::string text = "rank " + std::to_string(rank) + " calls " + nameOf(call.operation) + " of " +
                     runtime::describe(call.dtype, call.sizes);
  if (call.operation == CollectiveOp::Broadcast)
    return text + " from " + std::to_string(call.splitDimOrRoot);
  if (call.dim >= 0)
    text += " along " + std::to_string(call.dim);
  return call.splitDimOrRoot < 0 ? text : text + " to " + std::to_string(call.splitDimOrRoot);
}

void verifyCollectiveMatch(llvm::ArrayRef<uint32_t> ranks,
                           llvm::function_ref<const CollectiveCall &(uint32_t)> call) {
  const CollectiveCall &first = call(0);
  const bool gathers =
      first.operation == CollectiveOp::AllGather || first.operation == CollectiveOp::AllToAll;
  for (uint32_t index = 1; index < ranks.size(); ++index) {
    const CollectiveCall &other = call(index);
    bool isSame = other.operation == first.operation && other.dim == first.dim &&
                  other.splitDimOrRoot == first.splitDimOrRoot && other.dtype == first.dtype &&
                  other.sizes.size() == first.sizes.size();
    for (size_t dim = 0; isSame && dim < first.sizes.size(); ++dim)
      isSame = (gathers && int64_t(dim) == first.dim) || other.sizes[dim] == first.sizes[dim];
    TORCH_CHECK(isSame, describe(ranks[index], other), ", ", describe(ranks[0], first),
                "; expected the same call on all ranks of a group");
  }
}

} // namespace cleave::runtime
