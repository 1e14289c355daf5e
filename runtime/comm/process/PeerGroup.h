//===- PeerGroup.h - A tensor group of processes ----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_PROCESS_PEERGROUP_H
#define CLEAVE_RUNTIME_COMM_PROCESS_PEERGROUP_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/GroupCall.h"
#include "runtime/comm/Transport.h"
#include "runtime/comm/local/DeviceProcessGroup.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <atomic>
#include <string>
#include <vector>

namespace cleave::runtime {

/// This process' place in a tensor group whose ranks are processes. A call has two rounds. In the first each
/// rank tells all others what it calls and which parts of their tensors it wants, with its tensor where that
/// is small. In the second, unless all had room in the first, the parts go. A large sum has a third: each
/// rank has added one chunk, which goes to all. The bits are those of LocalGroup. After a call that throws
/// there must be no other one.
class PeerGroup final : public Communicator {
public:
  /// \param first  rank of the group in the plan; `size` of them follow each other, of which this is number
  /// `index`.
  /// \param devices  connects the devices of all of them, which must outlive the group; null where messages
  /// have the tensors.
  PeerGroup(Transport &transport, uint32_t first, uint32_t size, uint32_t index, DeviceProcessGroup *devices = nullptr);

  at::Tensor allReduce(const at::Tensor &tensor) override;
  at::Tensor allGather(const at::Tensor &tensor, int64_t dim, at::IntArrayRef pieces) override;
  at::Tensor reduceScatter(const at::Tensor &tensor, int64_t dim, at::IntArrayRef ranges) override;
  at::Tensor allToAll(const at::Tensor &tensor, int64_t from, at::IntArrayRef pieces, int64_t to,
                      at::IntArrayRef ranges) override;
  at::Tensor broadcast(const at::Tensor &tensor, int64_t root) override;

  /// `rank 3 in spmd::all_reduce` while a call waits for that one; else empty. Of any thread.
  std::string awaited() const;

private:
  /// What a rank says in the first round.
  struct CollectiveArgs {
    GroupCall call;
    /// What it wants: pieces of the ranks' tensors along `dim`, and ranges; see collectives/Collectives.h.
    std::vector<int64_t> pieces, ranges;
    /// Where the bytes of its tensor are, if they came along.
    const char *inlined = nullptr;
  };

  /// The parts that this rank wants of all ranks' tensors, by rank.
  std::vector<at::Tensor> exchange(GroupCall call, const at::Tensor &tensor, at::IntArrayRef pieces,
                                   at::IntArrayRef ranges);
  void say(const GroupCall &call, const at::Tensor &tensor, at::IntArrayRef pieces, at::IntArrayRef ranges);
  /// Throws for what is no call.
  CollectiveArgs read(const std::vector<char> &message) const;
  /// Throws where a rank wants more than there is. All posts have been read, and are alike.
  void checkWanted(const CollectiveArgs &asking) const;
  /// What `asking`, at `asker`, wants of the tensor of `giver`.
  at::Tensor partOf(const at::Tensor &tensor, uint32_t giver, const CollectiveArgs &asking, uint32_t asker) const;
  /// Sends `of(rank)` to every other rank, and receives `into(rank)` from it.
  void swap(llvm::function_ref<at::Tensor(uint32_t)> of, llvm::function_ref<at::Tensor(uint32_t)> into);
  void checkPieces(at::IntArrayRef pieces) const;
  /// The same between devices.
  void swapOnDevices(llvm::function_ref<at::Tensor(uint32_t)> of,
                     llvm::function_ref<at::Tensor(uint32_t)> into);
  /// Does `work`, for which all ranks' devices are waited for.
  at::Tensor onDevices(GroupOperation operation, llvm::function_ref<at::Tensor()> work);
  /// The sum of tensors of one size on the CPU, in their order, to `result`.
  void sumInto(const at::Tensor &result, const std::vector<at::Tensor> &parts) const;
  void awaitAll(std::vector<std::unique_ptr<Message>> &messages, const std::vector<uint32_t> &from);

  Transport &transport;
  const uint32_t first, size, index;
  DeviceProcessGroup *const devices;
  /// What is said, and heard by rank.
  std::vector<char> said;
  std::vector<std::vector<char>> heard;
  std::vector<CollectiveArgs> posts;
  static constexpr int64_t kNobody = -1, kDevices = -2;
  /// The rank that is waited for, or one of these (the GPUs of all), and in which operation.
  std::atomic<int64_t> waitsFor{kNobody};
  std::atomic<GroupOperation> current{GroupOperation::AllReduce};
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_PROCESS_PEERGROUP_H
