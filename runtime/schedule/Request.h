//===- Request.h - One run of a signature under way -------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SCHEDULE_REQUEST_H
#define CLEAVE_RUNTIME_SCHEDULE_REQUEST_H

#include "codegen/plan/Plan.h"
#include "runtime/base/CancellationToken.h"
#include "runtime/device/MemoryAccount.h"
#include "runtime/device/Streams.h"
#include "runtime/exchange/Exchange.h"
#include "runtime/exchange/Microbatches.h"
#include "runtime/executor/States.h"
#include "runtime/schedule/AdmissionController.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

class StageRun;

/// What the ranks that work on a request and the caller that waits for it share. Every wait ends at the
/// deadline, or when the request fails; the first failure is the one that is reported. The time of a request
/// begins when the first rank takes it up; until then, with the end of the request before it.
class Request : private CancellationToken {
public:
  /// \param number     of the request in its session, for traces.
  /// \param ranks      which ranks of this process take part, ascending.
  /// \param traffic    says when the request before it ended.
  /// \param admission  of the request, which it gives back with its end.
  /// \param connect    gives what the ranks exchange by.
  /// \param states     what the request writes there counts from its end on, if it succeeds; live as long as
  /// the ranks.
  /// \param outputPlace  where outputs are given.
  /// \param collects   outputs come from other processes, for which `takeOutputs` waits.
  /// \param overdue    called with the message by the thread that finds the deadline passed; may be empty.
  Request(uint64_t number, std::vector<at::Tensor> inputs, Microbatches microbatches, size_t outputs,
          llvm::ArrayRef<uint32_t> ranks, std::shared_ptr<AdmissionController> admissions, AdmissionController::Admission admission,
          llvm::MutableArrayRef<States> states,
          llvm::function_ref<std::shared_ptr<Exchange>(CancellationToken &)> connect,
          c10::Device outputPlace = c10::kCPU, bool collects = false,
          std::function<void(const std::string &)> overdue = nullptr);

  const uint64_t number;
  const Microbatches microbatches;
  const c10::Device outputPlace;

  /// Leaf `leaf` of the inputs as micro-batch `microbatch` sees it.
  at::Tensor input(size_t leaf, uint32_t microbatch) const {
    return microbatches.inputOf(microbatch, leaf, inputs[leaf]);
  }

  /// By which ranks that work on the request reach each other.
  Exchange &exchange() { return *ranksExchange; }
  /// Notes what `rank` does from now on, for messages.
  void enter(uint32_t rank, const plan::Action &action, const StageRun *stage = nullptr);
  /// Adds what a micro-batch, of those of all data ranks, gives to a leaf of the outputs; what is on a GPU
  /// has been added when the thread has finished there (`synchronize`).
  void addOutput(size_t leaf, uint32_t microbatch, const at::Tensor &tensor);
  /// Sends the outputs of `signature` to where they are waited for, once a rank has done its part.
  void giveOutputs(uint32_t signature) { exchange().giveOutputs(signature, microbatches, outputs); }
  /// Waits for those that come from other processes.
  void takeOutputs(uint32_t signature);
  /// Ends the part of `rank`, or of what takes outputs, which counts none of them in its `account` any more;
  /// with the last part the request is done.
  void leave(std::optional<uint32_t> rank, MemoryAccount &account);

  /// Whether this was the first failure.
  bool fail(std::string message);
  /// Fails where the deadline has passed.
  void checkDeadline();
  const std::atomic<bool> &failed() const { return hasFailed; }

  /// Blocks until the request is done or has failed.
  llvm::Expected<std::vector<at::Tensor>> wait();

private:
  using Clock = AdmissionController::Clock;
  struct RankState {
    uint32_t rank;
    /// What it does; null before it has begun.
    const plan::Action *action = nullptr;
    /// Whose program it runs.
    const StageRun *stage = nullptr;
    bool left = false;
  };

  RankState &stateOf(uint32_t rank);
  Clock::time_point deadlineLocked() const;
  bool isOver() const override { return hasFailed; }
  Clock::time_point deadline() override;
  void expire() override;
  void end();
  /// What a rank that has not finished does or waits for.
  std::string describe(const RankState &state) const;
  std::string describeStuck();

  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  /// By output: when there is room for it, if it is joined.
  std::vector<StreamEvents> rooms;
  const std::shared_ptr<AdmissionController> admissions;
  AdmissionController::Admission admission;
  const llvm::MutableArrayRef<States> states;
  const std::function<void(const std::string &)> overdue;
  std::atomic<bool> hasFailed{false};

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<RankState> ranks;
  size_t working;
  const Clock::time_point submitted = Clock::now();
  Clock::time_point begun{};
  std::string failure;
  std::shared_ptr<Exchange> ranksExchange;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SCHEDULE_REQUEST_H
