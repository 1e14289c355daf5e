//===- Request.h - One run of a signature under way -------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_REQUEST_H
#define CLEAVE_RUNTIME_REQUEST_H

#include "codegen/plan/Plan.h"
#include "runtime/LocalGroup.h"
#include "runtime/MemoryAccount.h"
#include "runtime/Microbatches.h"
#include "runtime/States.h"
#include "runtime/Traffic.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace cleave::runtime {

/// What the ranks that work on a request and the caller that waits for it share. Every wait ends at the
/// deadline, or when the request fails; the first failure is the one that is reported. The time of a request begins when
/// the first rank takes it up; until then, with the end of the request before it.
class Request : private Patience {
public:
  /// \param number     of the request in its session, for traces.
  /// \param transfers  how many transfers between stages there are in one micro-batch, on all ranks.
  /// \param ranks      which ranks take part, ascending.
  /// \param groupSize  how many of them, beginning at each multiple, are a tensor group.
  /// \param traffic    counts the request (`enter`) before a rank takes it up.
  /// \param states     what the request writes there counts from its end on, if it succeeds; live as long as the ranks.
  /// \param outputPlace  where outputs are given.
  Request(uint64_t number, std::vector<at::Tensor> inputs, Microbatches microbatches, size_t outputs, size_t transfers,
          llvm::ArrayRef<uint32_t> ranks, uint32_t groupSize, std::shared_ptr<Traffic> traffic,
          llvm::MutableArrayRef<States> states, c10::Device outputPlace = c10::kCPU);

  const uint64_t number;
  const Microbatches microbatches;
  const c10::Device outputPlace;

  /// Leaf `leaf` of the inputs as micro-batch `microbatch` sees it.
  at::Tensor input(size_t leaf, uint32_t microbatch) const {
    return microbatches.inputOf(microbatch, leaf, inputs[leaf]);
  }

  /// What `rank` and its tensor group exchange for this request until all have left; null where it is alone.
  Communicator *communicatorOf(uint32_t rank);
  /// Notes what `rank` does from now on, for messages.
  void enter(uint32_t rank, const plan::Action &action);
  /// Gives the values of a transfer to its receiver, leaving none in `values`, whose memory stays the
  /// sender's, and returns when that has taken them; false when the request failed.
  bool send(size_t transfer, uint32_t microbatch, std::vector<c10::IValue> &values);
  /// Takes the values of a transfer when its sender has given them, and counts them as the receiver's; false
  /// when the request failed.
  bool receive(size_t transfer, uint32_t microbatch, MemoryAccount &receiver, std::vector<c10::IValue> &values);
  /// Adds what a micro-batch gives to a leaf of the outputs; for one leaf always by one rank.
  void addOutput(size_t leaf, uint32_t microbatch, at::Tensor tensor);
  /// Ends the part of `rank`, which counts no output in its `account` any more; with that of the last one the
  /// request is done.
  void leave(uint32_t rank, MemoryAccount &account);

  void fail(std::string message);
  const std::atomic<bool> &failed() const { return hasFailed; }

  /// Blocks until the request is done or has failed.
  llvm::Expected<std::vector<at::Tensor>> wait();

private:
  using Clock = Traffic::Clock;
  struct Mailbox {
    /// The sender's, which waits until they are taken; null before they are given.
    std::vector<c10::IValue> *values = nullptr;
    bool taken = false;
  };
  struct RankState {
    uint32_t rank;
    /// What it does; null before it has begun.
    const plan::Action *action = nullptr;
    bool left = false;
  };

  RankState &stateOf(uint32_t rank);
  Mailbox &mailboxOf(size_t transfer, uint32_t microbatch) {
    return mailboxes[transfer * microbatches.count() + microbatch];
  }
  Clock::time_point deadlineLocked() const;
  bool isOver() const override { return hasFailed; }
  Clock::time_point deadline() override;
  void expire() override;
  /// Waits until `reached` holds; false when the request failed.
  template <typename Condition> bool waitUntil(std::unique_lock<std::mutex> &lock, Condition reached);
  void failLocked(std::string message);
  void end();
  /// What a rank that has not finished does or waits for.
  std::string describe(const RankState &state) const;
  std::string describeStuck() const;

  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  const std::shared_ptr<Traffic> traffic;
  const llvm::MutableArrayRef<States> states;
  const uint32_t groupSize;
  std::atomic<bool> hasFailed{false};

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Mailbox> mailboxes;
  std::vector<RankState> ranks;
  size_t working;
  /// By the place in the pipeline; none where every rank is alone.
  std::vector<std::unique_ptr<LocalGroup>> groups;
  const Clock::time_point submitted = Clock::now();
  Clock::time_point begun{};
  std::string failure;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_REQUEST_H
