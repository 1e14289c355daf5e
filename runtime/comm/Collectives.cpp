//===- Collectives.cpp - Calls of collectives by their operands -----------===//
#include "runtime/comm/Collectives.h"
#include <c10/util/DimVector.h>

namespace cleave::runtime {

/// The numbers of a list operand.
static c10::DimVector numbersOf(const c10::IValue &list) {
  TORCH_CHECK(list.isIntList(), "found ", list.tagKind(), ", expected a list of integers");
  const auto numbers = list.toIntList();
  return c10::DimVector(numbers.begin(), numbers.end());
}

static at::Tensor call(Communicator &group, CollectiveOp operation, const at::Tensor &tensor,
                       const torch::jit::Stack &stack) {
  switch (operation) {
  case CollectiveOp::AllReduce:
    return group.allReduce(tensor);
  case CollectiveOp::AllGather:
    return group.allGather(tensor, stack.at(1).toInt(), numbersOf(stack.at(2)));
  case CollectiveOp::ReduceScatter:
    return group.reduceScatter(tensor, stack.at(1).toInt(), numbersOf(stack.at(2)));
  case CollectiveOp::AllToAll:
    return group.allToAll(tensor, stack.at(1).toInt(), numbersOf(stack.at(2)), stack.at(3).toInt(),
                          numbersOf(stack.at(4)));
  case CollectiveOp::Broadcast:
    return group.broadcast(tensor, stack.at(1).toInt());
  }
  TORCH_INTERNAL_ASSERT(false, "a collective of no known kind");
}

void callCollective(Communicator *group, CollectiveOp operation, torch::jit::Stack &stack) {
  TORCH_CHECK(group,
              "found no group of ranks, expected a plan with several ranks in the group of the collective");
  const c10::IValue &operand = stack.at(0);
  TORCH_CHECK(operand.isTensor() && operand.toTensor().defined(), "found ", operand.tagKind(),
              ", expected a tensor");
  at::Tensor result = call(*group, operation, operand.toTensor(), stack);
  stack.clear();
  stack.emplace_back(std::move(result));
}

} // namespace cleave::runtime
