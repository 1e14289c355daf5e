//===- LocalGroup.h - A tensor group of threads -----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_LOCAL_LOCALGROUP_H
#define CLEAVE_RUNTIME_COMM_LOCAL_LOCALGROUP_H

#include "runtime/base/CancellationToken.h"
#include "runtime/comm/Communicator.h"
#include "runtime/comm/GroupCall.h"
#include "runtime/device/Streams.h"
#include "llvm/ADT/ArrayRef.h"
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

namespace cleave::runtime {

/// The ranks of a tensor group as threads of this process, for one request: nothing that a failed one leaves
/// behind is seen by the next. They read each other's tensors in place; on GPUs, where each has one of its
/// own, they take copies. Each call has two meetings: at the first one all ranks have posted what they give,
/// which every rank then checks and takes its own part of; at the second one nobody reads it any more. After
/// a call that throws a rank must make no other one.
class LocalGroup {
public:
  /// \param firstRank  of the group in the plan, for messages.
  /// \param spins      whether ranks spin for some µs before they sleep: not where they would take the
  /// others' cores.
  /// \param cancellation   must outlive the group.
  LocalGroup(uint32_t firstRank, uint32_t size, bool spins, CancellationToken &cancellation);

  Communicator &member(uint32_t index) { return members[index]; }
  /// Ends all waits where the cancellation is over.
  void wake();
  /// `rank 3 in spmd::all_reduce` while member `index` sleeps until that one comes; else empty.
  std::string awaited(uint32_t index) const;

private:
  /// What a rank gives to a call, and says of it. Holds the tensors for as long as others may read them.
  struct CollectiveArgs {
    GroupCall call;
    at::Tensor tensor;
    /// AllReduce on the CPU: where the sum goes.
    at::Tensor result;
    /// On a GPU: where it has made the tensor.
    StreamEvents made;
  };
  /// A rank's; only it writes there. Other ranks read `post` between the two meetings.
  struct alignas(64) Slot {
    CollectiveArgs post;
    /// How many calls the rank has posted, and how many of them it needs nobody's tensors for any more.
    std::atomic<uint64_t> posted{0}, finished{0};
    std::atomic<bool> sleeps{false};
    /// Room for where the tensors of a sum begin.
    std::vector<const char *> inputs;
    std::vector<char *> outputs;
  };
  using Counter = std::atomic<uint64_t> Slot::*;

  class Member final : public Communicator {
  public:
    Member(LocalGroup &group, uint32_t index) : group(group), index(index) {}
    at::Tensor allReduce(const at::Tensor &tensor) override;
    at::Tensor allGather(const at::Tensor &tensor, int64_t dim, at::IntArrayRef pieces) override;
    at::Tensor reduceScatter(const at::Tensor &tensor, int64_t dim, at::IntArrayRef ranges) override;
    at::Tensor allToAll(const at::Tensor &tensor, int64_t from, at::IntArrayRef pieces, int64_t to,
                        at::IntArrayRef ranges) override;
    at::Tensor broadcast(const at::Tensor &tensor, int64_t root) override;

  private:
    Slot &slot() { return group.slots[index]; }
    template <typename Work> void exchange(CollectiveArgs post, Work work);
    /// The same on GPUs, where nobody waits: `work` makes the result of what all ranks gave.
    template <typename Work> at::Tensor exchangeThere(GroupCall call, const at::Tensor &tensor, Work work);
    void sumOwnChunk();
    void checkPieces(int64_t dim, at::IntArrayRef pieces) const;

    LocalGroup &group;
    const uint32_t index;
  };

  void publish(std::atomic<uint64_t> &counter, uint64_t count);
  bool haveReached(Counter counter, uint64_t count) const;
  /// Waits until every rank's counter is at least `count`.
  void meet(Slot &own, Counter counter, uint64_t count);
  bool sleep(Counter counter, uint64_t count);

  const uint32_t firstRank;
  const bool spins;
  CancellationToken &cancellation;
  std::vector<Slot> slots;
  std::vector<Member> members;
  std::atomic<uint32_t> sleepers{0};
  std::mutex mutex;
  std::condition_variable changed;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_LOCAL_LOCALGROUP_H
