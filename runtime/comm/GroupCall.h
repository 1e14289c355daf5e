//===- GroupCall.h - What a rank says of a call of its group ----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_GROUPCALL_H
#define CLEAVE_RUNTIME_COMM_GROUPCALL_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>
#include <cstdint>
#include <string>

namespace cleave::runtime {

enum class GroupOperation : uint8_t { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast };

/// `all_reduce`.
const char *nameOf(GroupOperation operation);

/// A call, and the tensor that a rank gives to it.
struct GroupCall {
  GroupOperation operation = GroupOperation::AllReduce;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::DimVector sizes;
  /// Dimensions or root, -1 where there is none; `dim` is the one that may be of different size.
  int64_t dim = -1, other = -1;
};

GroupCall callOf(GroupOperation operation, const at::Tensor &tensor, int64_t dim = -1, int64_t other = -1);

/// Throws where the ranks of a group make calls that do not belong together: call `i` is of rank `firstRank +
/// i`.
void verifyCollectiveMatch(uint32_t firstRank, uint32_t count, llvm::function_ref<const GroupCall &(uint32_t)> call);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_GROUPCALL_H
