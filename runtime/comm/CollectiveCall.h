//===- CollectiveCall.h - The signature of a collective call ----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_COLLECTIVECALL_H
#define CLEAVE_RUNTIME_COMM_COLLECTIVECALL_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>
#include <cstdint>
#include <string>

namespace cleave::runtime {

enum class CollectiveOp : uint8_t { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast };

/// `all_reduce`.
const char *nameOf(CollectiveOp operation);

/// One rank's call of a collective: the operation, and dtype and sizes of the tensor that the rank passes.
struct CollectiveCall {
  CollectiveOp operation = CollectiveOp::AllReduce;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::DimVector sizes;
  /// Dimensions or root; -1 where there is none. The size of dimension `dim` may differ between ranks.
  int64_t dim = -1, other = -1;
};

CollectiveCall callOf(CollectiveOp operation, const at::Tensor &tensor, int64_t dim = -1, int64_t other = -1);

/// Throws where the ranks of a group call different collectives, or pass tensors that do not match. `call(i)`
/// is the call of rank `firstRank + i`.
void verifyCollectiveMatch(uint32_t firstRank, uint32_t count,
                           llvm::function_ref<const CollectiveCall &(uint32_t)> call);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_COLLECTIVECALL_H
