//===- Session.cpp --------------------------------------------------------===//
#include "runtime/session/Session.h"
#include "codegen/plan/PlanQueries.h"
#include "runtime/base/Exceptions.h"
#include "runtime/session/SessionImpl.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;

Error Session::close() {
  return catching([&] { return impl->close(); });
}

Session::Session(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Session::~Session() = default;

Expected<std::unique_ptr<Session>> Session::open(llvm::StringRef planDirectory, SessionOptions options) {
  auto loaded = plan::readPlan(planDirectory);
  if (!loaded)
    return loaded.takeError();
  return catching([&]() -> Expected<std::unique_ptr<Session>> {
    auto impl = std::make_unique<Impl>(std::move(loaded->plan), std::move(options));
    if (Error error = impl->open(planDirectory, loaded->rootChecksum))
      return error;
    return std::unique_ptr<Session>(new Session(std::move(impl)));
  });
}

const plan::Plan &Session::plan() const { return *impl->plan; }

Expected<std::unique_ptr<Session::Pending>> Session::start(llvm::ArrayRef<at::Tensor> inputs,
                                                           RequestOptions options) {
  if (Error error = impl->checkMayCall())
    return error;
  return impl->reportingFailure([&]() -> Expected<std::unique_ptr<Pending>> {
    auto request = impl->submit(inputs, options);
    if (!request)
      return request.takeError();
    return std::unique_ptr<Pending>(
        new Pending(std::make_unique<Pending::Impl>(Pending::Impl{std::move(*request)})));
  });
}

Expected<std::vector<at::Tensor>> Session::run(llvm::ArrayRef<at::Tensor> inputs, RequestOptions options) {
  auto pending = start(inputs, options);
  if (!pending)
    return pending.takeError();
  return (*pending)->wait();
}

Expected<CapturedRequest> Session::capture(llvm::ArrayRef<at::Tensor> inputs, const CaptureOptions &options,
                                           RequestOptions request) {
  if (Error error = impl->checkMayCall())
    return error;
  return impl->reportingFailure([&] { return impl->capture(inputs, options, request); });
}

Error Session::resetState() {
  if (Error error = impl->checkMayCall())
    return error;
  return plan().states.empty() ? Error::success() : impl->reportingFailure([&] { return impl->reset(); });
}

Error Session::endSequence(uint64_t sequence) {
  if (Error error = impl->checkMayCall())
    return error;
  return plan().states.empty() ? Error::success()
                               : impl->reportingFailure([&] { return impl->endSequence(sequence); });
}

/// Other processes than the coordinator wait for commands, and none is for what training has changed.
static Error checkNoCoordinator(bool hasOne) {
  return hasOne ? llvm::createStringError("found a session with a coordinator, expected one whose processes "
                                          "make the same calls; see SessionOptions::hasCoordinator")
                : Error::success();
}

Expected<TrainedTensors> Session::trainedTensors() {
  if (Error error = checkNoCoordinator(bool(impl->commands)))
    return error;
  return impl->reportingFailure([&] { return impl->trainedTensors(); });
}

Error Session::restore(const TrainedTensors &tensors) {
  if (Error error = checkNoCoordinator(bool(impl->commands)))
    return error;
  return impl->reportingFailure([&] { return impl->restore(tensors); });
}

Error Session::serve() {
  if (!impl->commands || impl->isCoordinator())
    return llvm::createStringError(
        "this process has no coordinator to serve; see SessionOptions::hasCoordinator");
  return impl->reportingFailure([&] { return impl->serve(); });
}

std::vector<DeviceStatistics> Session::statistics() const {
  std::vector<DeviceStatistics> all;
  for (const auto &rank : impl->ranks) {
    const StateTraffic traffic = rank->trafficOf(impl->states);
    all.push_back({rank->device().name(), rank->number(), rank->weightBytes(), rank->device().peakBytes(),
                   traffic.bytesWritten, traffic.bytesCopied, rank->busySeconds(), rank->eagerStages()});
  }
  return all;
}

std::vector<TraceEvent> Session::takeTrace() {
  std::vector<TraceEvent> all;
  for (const auto &rank : impl->ranks)
    llvm::append_range(all, rank->takeTrace());
  for (TraceEvent &event : all) {
    event.begin += impl->clockOffset;
    event.end += impl->clockOffset;
  }
  return all;
}

//===- Processes ----------------------------------------------------------===//

uint32_t Session::process() const { return impl->process(); }

uint32_t Session::processes() const { return impl->membership ? impl->membership->size() : 1; }

uint32_t Session::outputProcess(uint32_t signature) const {
  return impl->membership && !impl->commands ? outputRankOf(plan(), signature) : 0;
}

bool Session::needsInputs(uint32_t signature) const { return impl->rankSets[signature].readsInputs; }

Error Session::barrier() { return impl->membership ? impl->membership->barrier() : Error::success(); }

Expected<std::vector<std::string>> Session::gather(llvm::StringRef text, uint32_t root, size_t most) {
  return impl->membership ? impl->membership->gather(text, root, most) : std::vector<std::string>{text.str()};
}

Expected<std::string> Session::broadcast(llvm::StringRef text, uint32_t root) {
  return impl->membership ? impl->membership->broadcast(text, root) : text.str();
}

std::string Session::fail(const std::string &message) {
  if (!impl->membership)
    return message;
  std::string agreed = impl->membership->fail(message);
  impl->membership->linger();
  return agreed;
}

Session::Pending::Pending(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

Session::Pending::~Pending() { llvm::consumeError(wait().takeError()); }

Expected<std::vector<at::Tensor>> Session::Pending::wait() {
  return catching([&] { return impl->request->wait(); });
}

} // namespace cleave::runtime
