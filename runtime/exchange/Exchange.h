//===- Exchange.h - How the ranks of a request reach each other -*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXCHANGE_EXCHANGE_H
#define CLEAVE_RUNTIME_EXCHANGE_EXCHANGE_H

#include "runtime/comm/Communicator.h"
#include "runtime/device/MemoryAccount.h"
#include "runtime/exchange/Microbatches.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

/// One micro-batch of a transfer between stages.
struct P2PKey {
  /// Among the transfers of all ranks that share their stages.
  size_t transfer;
  uint32_t microbatch;
  /// The rank at the other end.
  uint32_t peer;
};

/// A leaf of the outputs of a request, or what one micro-batch gives for it.
struct Output {
  uint32_t leaf;
  std::optional<uint32_t> microbatch;
  at::Tensor tensor;
};

/// What ranks exchange while they work on requests: between threads of one process, or between processes.
class Exchange {
public:
  virtual ~Exchange() = default;

  /// That of a rank's tensor group; null where it is alone.
  virtual Communicator *communicatorOf(uint32_t rank) = 0;
  /// Gives the values to the receiver, leaving none in `values`; false when the request failed. May throw
  /// what a message between processes throws, as may the next.
  virtual bool send(const P2PKey &key, std::vector<c10::IValue> &values) = 0;
  /// Takes the values that the sender gives, and counts them as the receiver's; false when the request
  /// failed.
  virtual bool receive(const P2PKey &key, MemoryAccount &receiver,
                       std::vector<c10::IValue> &values) = 0;
  /// Sends what this process has of the outputs of a request to where it is waited for; it is then undefined
  /// here. For each rank when it has done its part.
  virtual void giveOutputs(uint32_t signature, const Microbatches &microbatches,
                           std::vector<at::Tensor> &outputs) = 0;
  /// Whether outputs come here from other processes.
  virtual bool takesOutputs(uint32_t signature) const = 0;
  /// Waits for them. For each request in turn.
  virtual std::vector<Output> takeOutputs(uint32_t signature, const Microbatches &microbatches) = 0;

  /// The request has failed: wakes those that wait.
  virtual void wake() = 0;
  /// Tells all that the request fails, and gives the message by which it does: an earlier one, if another
  /// rank has failed before. Called without the request's lock.
  virtual std::string agree(std::string message) = 0;
  /// The same for a rank that does not answer any more; `context` is who has noticed, and where.
  virtual std::string lose(uint32_t rank, const std::string &context) = 0;
  /// `rank 3 in spmd::all_reduce`, for which `rank` waits; else empty.
  virtual std::string awaited(uint32_t rank) const = 0;
  /// What all ranks do, where a request does not see them; else empty.
  virtual std::string describeRanks() = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_EXCHANGE_H
