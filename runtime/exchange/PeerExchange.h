//===- PeerExchange.h - Ranks as processes ----------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXCHANGE_PEEREXCHANGE_H
#define CLEAVE_RUNTIME_EXCHANGE_PEEREXCHANGE_H

#include "codegen/plan/Plan.h"
#include "runtime/comm/process/DeviceLinks.h"
#include "runtime/comm/process/PeerGroup.h"
#include "runtime/exchange/Exchange.h"
#include "runtime/exchange/P2PChannel.h"
#include "runtime/rendezvous/Membership.h"
#include <map>
#include <memory>
#include <optional>

namespace cleave::runtime {

/// The rank to which the outputs of `signature` are sent if there is no coordinator: the first rank of the
/// last stage that makes outputs.
uint32_t outputRankOf(const plan::Plan &plan, uint32_t signature);

/// Exchange between one rank and ranks in other processes. Lives for many requests.
class PeerExchange final : public Exchange {
public:
  /// \param account  counts received values.
  /// \param hasCoordinator  outputs go to rank 0, else to `outputRankOf`.
  /// `plan`, `membership` and `links` must outlive the result. Its waits end when the transport is closed and
  /// the links are aborted.
  PeerExchange(const plan::Plan &plan, Membership &membership, MemoryAccount &account, bool hasCoordinator,
               const DeviceLinks &links);

  Communicator &communicatorOf(uint32_t, uint32_t group) override;
  /// Returns when the values sent before have been received.
  bool send(const P2PKey &key, std::vector<c10::IValue> &values) override;
  bool receive(const P2PKey &key, MemoryAccount &receiver, std::vector<c10::IValue> &values) override;
  void sendOutputs(uint32_t signature, const Microbatches &microbatches,
                   std::vector<at::Tensor> &outputs) override;
  bool receivesOutputs(uint32_t signature) const override;
  bool sendsOutputs(uint32_t signature) const override { return membership.rank() != outputRank(signature); }
  std::vector<Output> receiveOutputs(uint32_t signature, const Microbatches &microbatches) override;
  void sendCaptured(uint32_t signature, std::vector<c10::IValue> &values) override;
  std::vector<c10::IValue> receiveCaptured(uint32_t rank) override;
  std::string awaited(uint32_t) const override;

private:
  void connect(uint32_t signature);
  /// The rank that waits for the outputs of `signature`.
  uint32_t outputRank(uint32_t signature) const { return hasCoordinator ? 0 : outputRankOf(plan, signature); }
  /// The output leaves of which `rank` makes a part.
  std::vector<uint32_t> leavesOf(uint32_t signature, uint32_t rank) const;
  /// The parts of these leaves that `rank` makes, in the order in which it sends them; without tensors.
  std::vector<Output> partsOf(uint32_t signature, uint32_t rank, const Microbatches &microbatches) const;

  const plan::Plan &plan;
  Membership &membership;
  MemoryAccount &account;
  const bool hasCoordinator;
  const DeviceLinks &links;
  /// A group of the plan that this rank is in.
  struct OwnGroup {
    std::unique_ptr<PeerGroup> group;
    /// Copies tensors through CPU memory, for a GPU whose tensors go through messages; else null.
    std::unique_ptr<Communicator> hostStaged;
  };
  /// By index in the plan.
  std::map<uint32_t, OwnGroup> groups;
  /// By the other rank and the kind of values. Made in the constructor.
  std::map<std::pair<uint32_t, Tag>, Sender> senders;
  std::map<std::pair<uint32_t, Tag>, Receiver> receivers;
  /// For captured values, by the other rank, made when they are first used. The senders belong to the thread
  /// of the rank, the receivers to the thread that takes outputs.
  std::map<uint32_t, Sender> capturedSenders;
  std::map<uint32_t, Receiver> capturedReceivers;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_PEEREXCHANGE_H
