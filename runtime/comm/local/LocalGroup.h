//===- LocalGroup.h - Collectives between threads ---------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_LOCAL_LOCALGROUP_H
#define CLEAVE_RUNTIME_COMM_LOCAL_LOCALGROUP_H

#include "runtime/base/CancellationToken.h"
#include "runtime/comm/CollectiveCall.h"
#include "runtime/comm/Communicator.h"
#include "runtime/device/Streams.h"
#include "llvm/ADT/ArrayRef.h"
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Group of ranks that are threads of this process, for one request; so a failed request leaves
/// no state behind. On CPUs ranks read each other's tensors in place. On GPUs, one for each rank, they take
/// copies. Each collective has two barriers. Before the first one every rank publishes its arguments; after
/// it every rank checks them and computes its own result. After the second one no rank reads the tensors of
/// another. A rank must make no further call after one that threw.
class LocalGroup {
public:
  /// \param ranks  ranks in the plan of its members, for messages.
  /// \param spins  whether ranks spin for some µs before they sleep; false where threads outnumber cores.
  /// \param cancellation  must outlive the group.
  LocalGroup(std::vector<uint32_t> ranks, bool spins, CancellationToken &cancellation);

  Communicator &member(uint32_t index) { return members[index]; }
  /// `rank 3 in spmd::all_reduce` while member `index` sleeps until that rank arrives; else empty.
  std::string awaited(uint32_t index) const;

private:
  /// Arguments of one rank's collective call. Keeps the tensors alive for as long as other ranks may read
  /// them.
  struct CollectiveArgs {
    CollectiveCall call;
    at::Tensor tensor;
    /// All-reduce on the CPU: the sum.
    at::Tensor result;
    /// On a GPU: events after which the tensor is ready.
    StreamEvents ready;
  };
  /// State of one rank, written by that rank alone. Other ranks read `args` between the two barriers.
  struct alignas(64) Slot {
    CollectiveArgs args;
    /// Number of calls whose arguments the rank has published, and of calls for which it needs no rank's
    /// tensors any more.
    std::atomic<uint64_t> published{0}, finished{0};
    std::atomic<bool> sleeps{false};
    /// Scratch memory for the addresses of a sum's tensors.
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
    template <typename Work> void exchange(CollectiveArgs args, Work work);
    /// As exchange, on GPUs, without blocking on them: `work` computes the result from the tensors of all
    /// ranks.
    template <typename Work>
    at::Tensor exchangeOnGpus(CollectiveCall call, const at::Tensor &tensor, Work work);
    void sumOwnChunk();
    void checkPieces(int64_t dim, at::IntArrayRef pieces) const;

    LocalGroup &group;
    const uint32_t index;
  };

  /// Wakes sleeping ranks.
  void wake();
  void publish(std::atomic<uint64_t> &counter, uint64_t count);
  bool haveReached(Counter counter, uint64_t count) const;
  /// Waits until every rank's counter is at least `count`.
  void waitForCounter(Slot &own, Counter counter, uint64_t count);
  bool sleep(Counter counter, uint64_t count);

  const std::vector<uint32_t> ranks;
  const bool spins;
  CancellationToken &cancellation;
  std::vector<Slot> slots;
  std::vector<Member> members;
  std::atomic<uint32_t> sleepers{0};
  std::mutex mutex;
  std::condition_variable changed;
  const CancellationToken::Waker waker;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_LOCAL_LOCALGROUP_H
