//===- Exchange.h - Values of a request between ranks -----------*- C++ -*-===//
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

/// Identifies the point-to-point message of one transfer and one micro-batch.
struct P2PKey {
  /// Index of the transfer, counted over all tensor- and data-parallel ranks of the two stages.
  size_t transfer;
  uint32_t microbatch;
  /// The rank at the other end.
  uint32_t peer;
};

/// One leaf of a request's outputs, or the part of it that one micro-batch makes.
struct Output {
  uint32_t leaf;
  std::optional<uint32_t> microbatch;
  at::Tensor tensor;
};

/// Communication between ranks while they work on requests. Ranks are threads of one process (LocalExchange)
/// or processes (PeerExchange).
class Exchange {
public:
  virtual ~Exchange() = default;

  /// The communicator of `rank` in group `group` of the plan, which it is in.
  virtual Communicator &communicatorOf(uint32_t rank, uint32_t group) = 0;
  /// Sends the values, and clears `values`; false when the request failed. This and the following calls may
  /// throw what a message between processes throws.
  virtual bool send(const P2PKey &key, std::vector<c10::IValue> &values) = 0;
  /// Receives values from the sender, and counts them in `receiver`; false when the request failed.
  virtual bool receive(const P2PKey &key, MemoryAccount &receiver, std::vector<c10::IValue> &values) = 0;
  /// Sends this process's part of a request's outputs to the process that waits for them. `outputs` are
  /// undefined afterwards. Each rank calls it when it has done its part.
  virtual void sendOutputs(uint32_t signature, const Microbatches &microbatches,
                           std::vector<at::Tensor> &outputs) = 0;
  /// True if outputs and captured values of `signature` belong in another process.
  virtual bool sendsOutputs(uint32_t signature) const = 0;
  /// True if this process receives outputs from others.
  virtual bool receivesOutputs(uint32_t signature) const = 0;
  /// Waits for the outputs of other processes. Called for each request in order.
  virtual std::vector<Output> receiveOutputs(uint32_t signature, const Microbatches &microbatches) = 0;

  /// Sends captured values to the process that waits for the outputs of `signature`, and clears `values`.
  /// Only where `sendsOutputs` is true.
  virtual void sendCaptured(uint32_t signature, std::vector<c10::IValue> &values) = 0;
  /// Waits for those of the process `rank`. Called for each request in order.
  virtual std::vector<c10::IValue> receiveCaptured(uint32_t rank) = 0;

  /// What `rank` waits for in a collective, `rank 3 in spmd::all_reduce`; else empty.
  virtual std::string awaited(uint32_t rank) const = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_EXCHANGE_H
