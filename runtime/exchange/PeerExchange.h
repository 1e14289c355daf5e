//===- PeerExchange.h - Ranks as processes ----------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXCHANGE_PEEREXCHANGE_H
#define CLEAVE_RUNTIME_EXCHANGE_PEEREXCHANGE_H

#include "codegen/plan/Plan.h"
#include "runtime/comm/process/DeviceLinks.h"
#include "runtime/comm/process/PeerGroup.h"
#include "runtime/exchange/Exchange.h"
#include "runtime/exchange/P2PChannel.h"
#include "runtime/rendezvous/Membership.h"
#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace cleave::runtime {

/// The rank that has the outputs of `signature` sooner than others: that of the last stage that has some.
uint32_t outputRankOf(const plan::Plan &plan, uint32_t signature);

/// What one rank exchanges with those in other processes, request after request.
class PeerExchange final : public Exchange {
public:
  /// \param account  counts what comes.
  /// \param led      outputs go to rank 0, else to `outputRankOf`.
  /// `plan`, `peers` and `links` must outlive the result, whose waits end when the wire is cut and the links
  /// are aborted.
  PeerExchange(const plan::Plan &plan, Membership &membership, MemoryAccount &account, bool led,
               const DeviceLinks &links);

  /// What this rank does, for messages: without `rank N`.
  void setStatus(std::function<std::string()> describe) { status = std::move(describe); }

  Communicator *communicatorOf(uint32_t) override {
    return hostStaged ? hostStaged.get() : group ? &*group : nullptr;
  }
  /// Returns when what was sent before has been taken.
  bool send(const P2PKey &key, std::vector<c10::IValue> &values) override;
  bool receive(const P2PKey &key, MemoryAccount &receiver, std::vector<c10::IValue> &values) override;
  void giveOutputs(uint32_t signature, const Microbatches &microbatches,
                   std::vector<at::Tensor> &outputs) override;
  bool takesOutputs(uint32_t signature) const override;
  std::vector<Output> takeOutputs(uint32_t signature, const Microbatches &microbatches) override;
  void wake() override {}
  std::string agree(std::string message) override { return membership.fail(message); }
  std::string lose(uint32_t rank, const std::string &context) override { return membership.lose(rank, context); }
  std::string awaited(uint32_t) const override { return group ? group->awaited() : ""; }
  std::string describeRanks() override;

private:
  void connect(uint32_t signature);
  /// Where the outputs of `signature` are waited for.
  uint32_t outputRank(uint32_t signature) const { return led ? 0 : outputRankOf(plan, signature); }
  /// The leaves of the outputs of which `rank` gives something.
  std::vector<uint32_t> leavesOf(uint32_t signature, uint32_t rank) const;
  /// What it gives of them, in the order in which that is sent: no tensors yet.
  std::vector<Output> partsOf(uint32_t signature, uint32_t rank, const Microbatches &microbatches) const;

  const plan::Plan &plan;
  Membership &membership;
  MemoryAccount &account;
  const bool led;
  const DeviceLinks &links;
  std::function<std::string()> status;
  std::optional<PeerGroup> group;
  /// Null where `group` itself takes this rank's tensors.
  std::unique_ptr<Communicator> hostStaged;
  /// By rank and what they are for. Made before anything is exchanged.
  std::map<std::pair<uint32_t, Tag>, Sender> senders;
  std::map<std::pair<uint32_t, Tag>, Receiver> receivers;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_PEEREXCHANGE_H
