//===- SessionImpl.h - What a session holds ---------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SESSION_SESSIONIMPL_H
#define CLEAVE_RUNTIME_SESSION_SESSIONIMPL_H

#include "codegen/plan/PlanFile.h"
#include "runtime/base/Exceptions.h"
#include "runtime/comm/process/DeviceLinks.h"
#include "runtime/device/Device.h"
#include "runtime/device/PlanRanks.h"
#include "runtime/exchange/PeerExchange.h"
#include "runtime/schedule/RequestList.h"
#include "runtime/schedule/RankSet.h"
#include "runtime/session/Closing.h"
#include "runtime/session/FailureCallback.h"
#include "runtime/session/Coordinator.h"
#include "runtime/session/Session.h"
#include <mutex>

namespace cleave::runtime {

/// Everything that a session owns. SessionOpening.cpp loads it, SessionRequests.cpp serves requests,
/// Session.cpp is the API.
struct Session::Impl {
  Impl(std::unique_ptr<plan::Plan> plan, SessionOptions options)
      : plan(std::move(plan)), options(std::move(options)), operators(*this->plan),
        states(this->plan->mesh->tp, States(this->plan->states.size())) {}
  ~Impl();
  /// Meets the other processes, if there are any, and loads what this one runs.
  llvm::Error open(llvm::StringRef directory, const plan::Digest &checksum);
  llvm::Error join(const plan::Digest &checksum);
  llvm::Error load(llvm::StringRef directory);
  /// The devices of these ranks, and the one for outputs.
  llvm::Expected<std::vector<ResolvedDevice>> resolveOwn(llvm::ArrayRef<uint32_t> own);
  llvm::Error loadRanks(const plan::OpenShards &shards, llvm::ArrayRef<uint32_t> own);
  llvm::Error serve();
  /// What `work` returns; what it throws, of which other processes know nothing, is a failure of all.
  template <typename Work> auto telling(Work work) -> decltype(work());
  /// The error that all processes end with, where this one fails by `message`.
  llvm::Error failAll(const std::string &message);
  std::shared_ptr<Exchange> connect(const RankSet &route, uint32_t microbatches, CancellationToken &cancellation);
  bool leads() const { return coordinator && membership->rank() == 0; }
  /// Fails where the caller is led.
  llvm::Error checkMayCall() const;
  llvm::Expected<std::shared_ptr<Request>> submit(llvm::ArrayRef<at::Tensor> inputs, uint32_t signature);
  /// Gives an admitted request to the other processes and to the ranks of this one.
  llvm::Expected<std::shared_ptr<Request>> begin(AdmissionController::Admission admission, std::vector<at::Tensor> inputs,
                                                 Microbatches microbatches, uint32_t signature);
  void post(const std::shared_ptr<Request> &request, uint32_t signature, bool collects);
  /// Outputs of other processes.
  void takeOutputs(Request &request, uint32_t signature);
  llvm::Error reset();
  /// Does what process 0 has this one do.
  llvm::Error carryOut();
  /// Takes leave of the other processes, once.
  llvm::Error close();
  /// Waits for room for a request.
  llvm::Expected<AdmissionController::Admission> enter();
  /// What is done when a request is overdue; nothing where other processes have to agree on that.
  std::function<void(const std::string &)> onOverdue() const;
  size_t mostUnderWay() const;

  const std::unique_ptr<plan::Plan> plan;
  const SessionOptions options;
  /// Shared with requests.
  const std::shared_ptr<Closing> closing = std::make_shared<Closing>();
  Operators operators;
  /// By tensor rank: each keeps its own, of the same values.
  std::vector<States> states;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::vector<RankSet> routes;
  std::shared_ptr<AdmissionController> admissions;
  c10::Device outputPlace = c10::kCPU;
  /// What to add to times of this process for those of process 0.
  TraceEvent::Clock::duration clockOffset{};

  /// Held while a request is given to other processes and to its ranks: all must take up the requests in one
  /// order.
  std::mutex submission;
  RequestList underWay;
  std::atomic<uint64_t> submitted{0};
  /// Null where all ranks are in this process.
  Membership::Owner membership;
  /// This process' own, where it is one of several, and what its GPU reaches.
  ResolvedDevice ownDevice;
  std::unique_ptr<DeviceLinks> links;
  std::shared_ptr<PeerExchange> peerExchange;
  bool isClosed = false;
  /// Null where nobody wants to hear of a failure.
  std::unique_ptr<FailureCallback> failureCallback;
  /// Null where no process leads.
  std::unique_ptr<Coordinator> coordinator;
  /// Waits for the outputs of other processes, so that no rank has to.
  std::unique_ptr<Device> collector;
  /// One a rank of this process. The last member: their threads end before what they use is gone.
  std::vector<std::unique_ptr<Device>> devices;
};

template <typename Work> auto Session::Impl::telling(Work work) -> decltype(work()) {
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
