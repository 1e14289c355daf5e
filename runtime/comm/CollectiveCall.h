//===- CollectiveCall.h - The signature of a collective call ----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_COLLECTIVECALL_H
#define CLEAVE_RUNTIME_COMM_COLLECTIVECALL_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>
#include <cstdint>
#include <optional>
#include <string>

namespace cleave::runtime {

enum class CollectiveOp : uint8_t { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast };

/// `all_reduce`.
const char *nameOf(CollectiveOp operation);
/// The collective of an operator, by its name (`spmd::all_reduce`); nothing for all others, `spmd::shard`
/// among them.
std::optional<CollectiveOp> collectiveOf(llvm::StringRef operatorName);

/// One rank's call of a collective: the operation, and dtype and sizes of the tensor that the rank passes.
struct CollectiveCall {
  CollectiveOp operation = CollectiveOp::AllReduce;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::DimVector sizes;
  /// all_gather, reduce_scatter: the dimension. all_to_all: the dimension that is gathered. Else -1. Where it
  /// is gathered, its size may differ between ranks.
  int64_t dim = -1;
  /// all_to_all: the dimension that is split. broadcast: the root. Else -1.
  int64_t splitDimOrRoot = -1;
};

CollectiveCall callOf(CollectiveOp operation, const at::Tensor &tensor, int64_t dim = -1,
                      int64_t splitDimOrRoot = -1);

/// Throws where the ranks of a group call different collectives, or pass tensors that do not match. `call(i)`
/// is the call of rank `ranks[i]`.
void verifyCollectiveMatch(llvm::ArrayRef<uint32_t> ranks,
                           llvm::function_ref<const CollectiveCall &(uint32_t)> call);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_COLLECTIVECALL_H
