//===- LocalExchange.h - Ranks as threads of one process --------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXCHANGE_LOCALEXCHANGE_H
#define CLEAVE_RUNTIME_EXCHANGE_LOCALEXCHANGE_H

#include "runtime/base/CancellationToken.h"
#include "runtime/comm/local/LocalGroup.h"
#include "runtime/device/Streams.h"
#include "runtime/exchange/Exchange.h"
#include "llvm/ADT/ArrayRef.h"
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

namespace cleave::runtime {

/// Exchange between ranks that are threads of one process, for one request. Values move by reference. GPU
/// values move before they are ready: the receiver's stream waits for them.
class LocalExchange final : public Exchange {
public:
  /// \param ranks         number of ranks that take part.
  /// \param groups        groups of these ranks, by their index in the plan.
  /// \param transfers     number of transfers per micro-batch index, over all data- and tensor-parallel
  ///     ranks; P2PKey::transfer is below it.
  /// \param microbatches  largest number of micro-batches that one data-parallel rank runs;
  ///     P2PKey::microbatch is below it.
  /// `groups` and `cancellation`, that of the request, must outlive the result.
  LocalExchange(size_t ranks, const std::map<uint32_t, std::vector<uint32_t>> &groups, size_t transfers,
                uint32_t microbatches, CancellationToken &cancellation);

  Communicator &communicatorOf(uint32_t rank, uint32_t group) override;
  /// Returns when the receiver has taken the values; until then the sender owns their memory.
  bool send(const P2PKey &key, std::vector<c10::IValue> &values) override;
  bool receive(const P2PKey &key, MemoryAccount &receiver, std::vector<c10::IValue> &values) override;
  void sendOutputs(uint32_t, const Microbatches &, std::vector<at::Tensor> &) override {}
  bool receivesOutputs(uint32_t) const override { return false; }
  bool sendsOutputs(uint32_t) const override { return false; }
  std::vector<Output> receiveOutputs(uint32_t, const Microbatches &) override { return {}; }
  void sendCaptured(uint32_t, std::vector<c10::IValue> &) override {}
  std::vector<c10::IValue> receiveCaptured(uint32_t) override { return {}; }
  std::string awaited(uint32_t rank) const override;

private:
  struct Mailbox {
    /// The sender's values. The sender waits until they are taken. Null before they are sent.
    std::vector<c10::IValue> *values = nullptr;
    bool taken = false;
    /// Events after which the sender's GPUs have made the values.
    StreamEvents ready;
  };

  Mailbox &mailboxOf(const P2PKey &key) { return mailboxes[key.transfer * microbatches + key.microbatch]; }
  /// Waits until `reached` holds; false when the request failed.
  template <typename Condition> bool waitUntil(std::unique_lock<std::mutex> &lock, Condition reached);

  /// The ranks of a group, and their communicators.
  struct GroupOfRanks {
    const std::vector<uint32_t> &ranks;
    std::unique_ptr<LocalGroup> group;
    /// Nothing if the rank is not in the group.
    std::optional<uint32_t> indexOf(uint32_t rank) const;
  };

  const uint32_t microbatches;
  CancellationToken &cancellation;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Mailbox> mailboxes;
  /// By index in the plan.
  std::map<uint32_t, GroupOfRanks> groups;
  const CancellationToken::Waker waker;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_LOCALEXCHANGE_H
