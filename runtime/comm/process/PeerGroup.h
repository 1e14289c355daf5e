//===- PeerGroup.h - Collectives between processes --------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_PROCESS_PEERGROUP_H
#define CLEAVE_RUNTIME_COMM_PROCESS_PEERGROUP_H

#include "runtime/comm/CollectiveCall.h"
#include "runtime/comm/Communicator.h"
#include "runtime/comm/Transport.h"
#include "runtime/comm/process/DeviceProcessGroup.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <atomic>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Communicator of a group whose ranks are processes. A collective has up to three rounds:
/// - every rank sends all others its arguments: the call, and the parts that it needs of their tensors; with
///   its own tensor where that is small;
/// - ranks send each other the parts, unless all tensors came in the first round;
/// - large all-reduce only: each rank has added one chunk, and sends it to all.
/// Results are bitwise equal to those of LocalGroup, except an all-reduce over GPUs, whose order of additions
/// NCCL chooses. No further call may follow one that threw.
class PeerGroup final : public Communicator {
public:
  /// \param ranks  ranks in the plan of its members, of which this one has the index `index`.
  /// \param devices  connects the GPUs of the group, and must outlive it; null where tensors go through
  ///     messages.
  PeerGroup(Transport &transport, std::vector<uint32_t> ranks, uint32_t index,
            DeviceProcessGroup *devices = nullptr);

  at::Tensor allReduce(const at::Tensor &tensor) override;
  at::Tensor allGather(const at::Tensor &tensor, int64_t dim, at::IntArrayRef pieces) override;
  at::Tensor reduceScatter(const at::Tensor &tensor, int64_t dim, at::IntArrayRef ranges) override;
  at::Tensor allToAll(const at::Tensor &tensor, int64_t from, at::IntArrayRef pieces, int64_t to,
                      at::IntArrayRef ranges) override;
  at::Tensor broadcast(const at::Tensor &tensor, int64_t root) override;

  /// `rank 3 in spmd::all_reduce` while a call waits for that rank; else empty. Thread-safe.
  std::string awaited() const;

private:
  /// A rank's arguments of a collective, sent in the first round.
  struct CollectiveArgs {
    CollectiveCall call;
    /// The parts that it needs: pieces of the ranks' tensors along `dim`, and ranges; see
    /// collectives/Collectives.h.
    std::vector<int64_t> pieces, ranges;
    /// The bytes of its tensor; null if the message does not include them.
    const char *inlined = nullptr;
  };

  /// The parts that this rank needs of all ranks' tensors, by rank.
  std::vector<at::Tensor> exchange(CollectiveCall call, const at::Tensor &tensor, at::IntArrayRef pieces,
                                   at::IntArrayRef ranges);
  void encodeArgs(const CollectiveCall &call, const at::Tensor &tensor, at::IntArrayRef pieces,
                  at::IntArrayRef ranges);
  /// Parses a first-round message. Throws if it is malformed.
  CollectiveArgs read(const std::vector<char> &message) const;
  /// Throws where a rank asks for more than there is. All arguments have been read and match.
  void checkRequestedParts(const CollectiveArgs &args) const;
  /// The part of `source`'s tensor that `destination` needs by its arguments `args`.
  at::Tensor partOf(const at::Tensor &tensor, uint32_t source, const CollectiveArgs &args,
                    uint32_t destination) const;
  /// Sends `of(rank)` to every other rank, and receives `into(rank)` from it.
  void exchangeParts(llvm::function_ref<at::Tensor(uint32_t)> of,
                     llvm::function_ref<at::Tensor(uint32_t)> into);
  void checkPieces(at::IntArrayRef pieces) const;
  /// As exchangeParts, from GPU to GPU.
  void exchangePartsOnDevices(llvm::function_ref<at::Tensor(uint32_t)> of,
                              llvm::function_ref<at::Tensor(uint32_t)> into);
  /// Runs `work`, which waits for the GPUs of all ranks.
  at::Tensor onDevices(CollectiveOp operation, llvm::function_ref<at::Tensor()> work);
  /// Adds CPU tensors of one size, in their order, into `result`.
  void sumInto(const at::Tensor &result, const std::vector<at::Tensor> &parts) const;
  void awaitAll(std::vector<std::unique_ptr<PendingMessage>> &messages, const std::vector<uint32_t> &from);

  Transport &transport;
  const std::vector<uint32_t> ranks;
  const uint32_t size, index;
  DeviceProcessGroup *const devices;
  /// First-round messages: the sent one, and the received ones by rank.
  std::vector<char> sentArgs;
  std::vector<std::vector<char>> receivedArgs;
  std::vector<CollectiveArgs> peerArgs;
  static constexpr int64_t kNobody = -1, kDevices = -2;
  /// The rank that is waited for, or one of these constants (kDevices: the GPUs of all ranks), and the
  /// operation.
  std::atomic<int64_t> waitsFor{kNobody};
  std::atomic<CollectiveOp> current{CollectiveOp::AllReduce};
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_PROCESS_PEERGROUP_H
