//===- Request.h - One request of a session ---------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SCHEDULE_REQUEST_H
#define CLEAVE_RUNTIME_SCHEDULE_REQUEST_H

#include "codegen/plan/Plan.h"
#include "runtime/base/CancellationToken.h"
#include "runtime/capture/RequestCaptures.h"
#include "runtime/device/MemoryAccount.h"
#include "runtime/device/Streams.h"
#include "runtime/exchange/Exchange.h"
#include "runtime/exchange/Microbatches.h"
#include "runtime/executor/RequestStates.h"
#include "runtime/schedule/AdmissionController.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

class ProgramRun;

/// State of a request, shared by the ranks that work on it and the caller that waits for it. Every wait ends
/// when `cancellation` is cancelled, at its deadline at the latest. The timeout counts from the first action
/// of a rank or, before that, from the end of the previous request.
class Request {
public:
  /// \param number     index of the request in its session, for traces.
  /// \param ranks      ranks of this process that take part, ascending.
  /// \param admissions  says when the previous request ended.
  /// \param admission  released when the request ends.
  /// \param connect    makes the exchange between the ranks.
  /// \param states     committed when the request succeeds.
  /// \param outputDevice  device of the outputs.
  /// \param collects   outputs come from other processes; a thread calls `receiveOutputs`.
  /// \param processes  null where all ranks are threads of this process.
  /// \param onTimeout  see CancellationToken::Options.
  /// \param onHalfUpdate  called with the message when the request has failed after a rank began to change
  ///     weights, before another request is admitted.
  Request(uint64_t number, std::vector<at::Tensor> inputs, Microbatches microbatches, size_t outputs,
          llvm::ArrayRef<uint32_t> ranks, std::shared_ptr<AdmissionController> admissions,
          AdmissionController::Admission admission, RequestStates states,
          llvm::function_ref<std::shared_ptr<Exchange>(CancellationToken &)> connect,
          c10::Device outputDevice = c10::kCPU, bool collects = false, FailureAgreement *processes = nullptr,
          std::function<void(const std::string &)> onTimeout = nullptr,
          std::function<void(const std::string &)> onHalfUpdate = nullptr);

  const uint64_t number;
  const Microbatches microbatches;
  const c10::Device outputDevice;
  /// Cancelled by the first failure.
  CancellationToken cancellation;
  RequestStates states;
  /// See RequestOptions. Set before any rank has the request.
  bool refusesNan = false;
  std::string errorPrefix;
  /// What the request reads and replaces; null for nothing. Set before any rank has the request.
  std::shared_ptr<RequestCaptures> captures;

  /// True if the request ends before its outputs are there (CaptureOptions::stopAfter).
  bool stops() const { return captures && captures->stops(); }
  /// Leaf `leaf` of the inputs, as micro-batch `microbatch` reads it.
  at::Tensor input(size_t leaf, uint32_t microbatch) const {
    return microbatches.inputOf(microbatch, leaf, inputs[leaf]);
  }

  /// Communication between the ranks of the request.
  Exchange &exchange() { return *ranksExchange; }
  /// Records the current action of `rank`, for messages.
  void enter(uint32_t rank, const plan::Action &action, const ProgramRun *stage = nullptr);
  /// Records that a rank begins to change weights. If the request fails afterwards, they may be half changed.
  void beginUpdate() { updates.store(true); }
  /// Adds a micro-batch's part of an output leaf. `microbatch` is an index among those of all data-parallel
  /// ranks. Copies from a GPU are asynchronous: they have completed after `synchronize`.
  void addOutput(size_t leaf, uint32_t microbatch, const at::Tensor &tensor);
  /// Sends the outputs of `signature`, and captured values, to the process that waits for them. Each rank
  /// calls it when it has done its part.
  void sendOutputs(uint32_t signature, uint32_t rank);
  /// Waits for those of other processes than that of `ownRank`.
  void receiveOutputs(uint32_t signature, uint32_t ownRank);
  /// Ends the part of `rank`, or of the thread that takes outputs. The outputs are not counted in its
  /// `account` any more. The last part ends the request.
  void leave(std::optional<uint32_t> rank, MemoryAccount &account);

  /// Blocks until the request has ended or failed.
  llvm::Expected<std::vector<at::Tensor>> wait();

private:
  struct RankState {
    uint32_t rank;
    /// Current action; null before the first one.
    const plan::Action *action = nullptr;
    /// The stage whose program it runs.
    const ProgramRun *stage = nullptr;
    bool left = false;
  };

  RankState &stateOf(uint32_t rank);
  /// Ends the request. Returns its exchange, to be destroyed without the lock.
  std::shared_ptr<Exchange> end();
  /// What an unfinished rank does or waits for.
  std::string describe(const RankState &state) const;
  /// What the unfinished ranks do.
  std::string describeStuck();

  std::atomic<bool> updates{false};
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  /// By output: events after which the memory of a joined output may be written.
  std::vector<StreamEvents> outputReady;
  const std::shared_ptr<AdmissionController> admissions;
  AdmissionController::Admission admission;
  const std::function<void(const std::string &)> onHalfUpdate;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<RankState> ranks;
  size_t working;
  std::shared_ptr<Exchange> ranksExchange;
  const CancellationToken::Waker waker;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SCHEDULE_REQUEST_H
