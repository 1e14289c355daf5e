//===- SessionImpl.h - Implementation of Session ----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SESSION_SESSIONIMPL_H
#define CLEAVE_RUNTIME_SESSION_SESSIONIMPL_H

#include "codegen/plan/PlanFile.h"
#include "runtime/base/Exceptions.h"
#include "runtime/comm/process/DeviceLinks.h"
#include "runtime/device/DeviceWorker.h"
#include "runtime/device/PlanRanks.h"
#include "runtime/exchange/PeerExchange.h"
#include "runtime/schedule/RankSet.h"
#include "runtime/schedule/RequestList.h"
#include "runtime/session/ClosedReason.h"
#include "runtime/session/CommandChannel.h"
#include "runtime/session/FailureCallback.h"
#include "runtime/session/Session.h"
#include <mutex>

namespace cleave::runtime {

/// All members of a session. SessionOpening.cpp loads it, SessionRequests.cpp serves requests,
/// SessionTensors.cpp reads and sets what training changes, Session.cpp is the API.
struct Session::Impl {
  Impl(std::unique_ptr<plan::Plan> plan, SessionOptions options)
      : plan(std::move(plan)), options(std::move(options)), operators(*this->plan), states(*this->plan) {}
  ~Impl();
  /// Joins the other processes, if there are any, and loads the ranks of this one.
  llvm::Error open(llvm::StringRef directory, const plan::Digest &checksum);
  llvm::Error join(const plan::Digest &checksum);
  llvm::Error load(llvm::StringRef directory);
  /// Resolves the devices of the ranks `own`, and the output device.
  llvm::Expected<std::vector<ResolvedDevice>> resolveOwn(llvm::ArrayRef<uint32_t> own);
  llvm::Error loadRanks(const plan::OpenShards &shards, llvm::ArrayRef<uint32_t> own);
  /// Connects this rank to the other processes (GPUs, values between stages, commands), and answers them from
  /// now on.
  llvm::Error connectRanks();
  /// Returns what `work` returns. If it throws, ends the run in all processes, which would not learn of the
  /// exception otherwise.
  template <typename Work> auto reportingFailure(Work work) -> decltype(work());
  /// The error with which all processes end, after this one failed with `message`.
  llvm::Error failAll(const std::string &message);
  std::shared_ptr<Exchange> connect(const RankSet &rankSet, uint32_t microbatches,
                                    CancellationToken &cancellation);
  bool isCoordinator() const { return commands && membership->rank() == 0; }
  /// Fails if only rank 0 may make this call.
  llvm::Error checkMayCall() const;
  llvm::Expected<std::shared_ptr<Request>> submit(llvm::ArrayRef<at::Tensor> inputs, RequestOptions request,
                                                  ResolvedCaptures captures = {});
  /// Hands an admitted request to the other processes and to the ranks of this one.
  llvm::Expected<std::shared_ptr<Request>> begin(AdmissionController::Admission admission,
                                                 std::vector<at::Tensor> inputs, Microbatches microbatches,
                                                 RequestOptions options,
                                                 std::shared_ptr<RequestCaptures> captures);
  llvm::Expected<CapturedRequest> capture(llvm::ArrayRef<at::Tensor> inputs, const CaptureOptions &options,
                                          RequestOptions request);
  /// One pass of a captured request.
  llvm::Expected<CapturedRequest> captureOnce(llvm::ArrayRef<at::Tensor> inputs, ResolvedCaptures captures,
                                              RequestOptions request);
  /// Calls a whole-batch hook in the process that has the value, and returns its result in all processes.
  llvm::Expected<at::Tensor> callWholeBatchHook(const Hook &hook, const std::string &name,
                                                llvm::ArrayRef<NamedTensor> values, RequestOptions request,
                                                int64_t batch);
  void post(const std::shared_ptr<Request> &request, uint32_t signature, bool collects);
  /// Waits for outputs of other processes.
  void receiveOutputs(Request &request, uint32_t signature);
  llvm::Error reset();
  llvm::Error endSequence(uint64_t sequence);
  llvm::Expected<TrainedTensors> trainedTensors();
  llvm::Expected<at::Tensor> wholeWeight(uint32_t index, llvm::ArrayRef<const plan::WeightShard *> shards);
  llvm::Expected<at::Tensor> wholeState(uint32_t index);
  /// Copies a tensor of `rank` into the main memory of process 0; other processes get an undefined tensor.
  /// All processes make this call.
  /// \param own   the tensor, in the process that runs the rank; undefined if the rank has none.
  /// \param most  bytes of its elements, at most.
  llvm::Expected<at::Tensor> moveToFirst(uint32_t rank, const at::Tensor &own, uint64_t most);
  /// Null if another process runs the rank.
  const Rank *rankHere(uint32_t number) const;
  uint32_t process() const { return membership ? membership->rank() : 0; }
  llvm::Error restore(const TrainedTensors &tensors);
  llvm::Error restoreState(uint32_t index, const at::Tensor &whole, StateValues &values);
  /// Executes the commands of rank 0, until that closes its session.
  llvm::Error serve();
  /// Leaves the run, once.
  llvm::Error close();
  /// Waits for admission of a request of a sequence, or of a call that must be alone.
  llvm::Expected<AdmissionController::Admission> enter(uint64_t sequence);
  llvm::Expected<AdmissionController::Admission> enterAlone();
  llvm::Expected<AdmissionController::Admission> admitted(AdmissionController::Admission admission);
  /// Fails if a request with this batch does not continue its sequence.
  llvm::Error checkSequence(RequestOptions request, int64_t batch) const;
  /// Callback for requests that time out; empty where the processes have to agree on that.
  std::function<void(const std::string &)> onTimeout() const;
  size_t mostUnderWay() const;

  const std::unique_ptr<plan::Plan> plan;
  const SessionOptions options;
  /// Shared with requests.
  const std::shared_ptr<ClosedReason> closedReason = std::make_shared<ClosedReason>();
  Operators operators;
  StateStore states;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::vector<RankSet> rankSets;
  std::shared_ptr<AdmissionController> admissions;
  c10::Device outputDevice = c10::kCPU;
  /// Clock of rank 0 minus the clock of this process.
  TraceEvent::Clock::duration clockOffset{};

  /// Held while a request is handed to other processes and to its ranks: all must start requests in the same
  /// order.
  std::mutex submission;
  RequestList underWay;
  std::atomic<uint64_t> submitted{0};
  /// Null where all ranks are in this process.
  Membership::Owner membership;
  /// Several processes: the device of this one, and its GPU connections.
  ResolvedDevice ownDevice;
  std::unique_ptr<DeviceLinks> links;
  std::shared_ptr<PeerExchange> peerExchange;
  bool isClosed = false;
  /// Null where there is no callback for failures.
  std::unique_ptr<FailureCallback> failureCallback;
  /// Null where there is no coordinator.
  std::unique_ptr<CommandChannel> commands;
  /// Waits for the outputs of other processes, so that no rank has to.
  std::unique_ptr<DeviceWorker> collector;
  /// One for each rank of this process. Declared last: their threads are joined before the members that they
  /// use are destroyed.
  std::vector<std::unique_ptr<DeviceWorker>> workers;
};

template <typename Work> auto Session::Impl::reportingFailure(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception &exception) {
    return failAll(messageOf(exception));
  }
}

struct Session::Pending::Impl {
  std::shared_ptr<Request> request;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_SESSIONIMPL_H
