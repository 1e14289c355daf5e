//===- Session.cpp --------------------------------------------------------===//
#include "runtime/Session.h"
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/Schedule.h"
#include "runtime/Device.h"
#include "runtime/Exceptions.h"
#include "runtime/Inputs.h"
#include "runtime/Placement.h"
#include "runtime/Rank.h"
#include "runtime/Request.h"
#include "llvm/ADT/STLExtras.h"
#include <c10/core/InferenceMode.h>
#include <mutex>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;

struct Session::Impl {
  /// What requests of one signature have in common.
  struct Route {
    /// Of all tensor ranks.
    size_t transfers;
    std::vector<uint32_t> ranks;
  };

  Impl(std::unique_ptr<plan::Plan> plan, SessionOptions options)
      : plan(std::move(plan)), options(std::move(options)), operators(*this->plan),
        states(this->plan->mesh->tp, States(this->plan->states.size())) {}
  ~Impl();
  Error load(llvm::StringRef directory);
  Expected<std::shared_ptr<Request>> submit(llvm::ArrayRef<at::Tensor> inputs, uint32_t signature);
  /// Waits for room for a request.
  Error enter();

  const std::unique_ptr<plan::Plan> plan;
  const SessionOptions options;
  Operators operators;
  /// By tensor rank: each keeps its own, of the same values.
  std::vector<States> states;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::vector<Route> routes;
  std::shared_ptr<Traffic> traffic;
  c10::Device outputPlace = c10::kCPU;

  /// Held while a request is given to its ranks: all must take up the requests in one order.
  std::mutex submission;
  std::vector<std::weak_ptr<Request>> underWay;
  std::atomic<uint64_t> submitted{0};
  /// One a rank. The last member: their threads end before what they use is gone.
  std::vector<std::unique_ptr<Device>> devices;
};

struct Session::Pending::Impl {
  std::shared_ptr<Request> request;
};

Session::Impl::~Impl() {
  std::lock_guard lock(submission);
  for (const std::weak_ptr<Request> &request : underWay)
    if (std::shared_ptr<Request> running = request.lock())
      running->fail("the session was closed while the request was under way");
}

Error Session::Impl::load(llvm::StringRef directory) {
  if (Error error = checkSupported(*plan))
    return error;
  if (Error error = checkDevices(*plan, options.devices))
    return error;
  auto resolved = resolveDevices(options.devices, rankCount(*plan));
  if (!resolved)
    return resolved.takeError();
  auto outputDevice = resolveDevice(options.outputDevice);
  if (!outputDevice)
    return llvm::createStringError("outputs: " + llvm::toString(outputDevice.takeError()));
  outputPlace = outputDevice->place;
  if (Error error = plan::checkShards(*plan, directory))
    return error;
  for (const std::string &library : options.libraries)
    if (Error error = loadLibrary(library))
      return error;
  devices = startDevices(*resolved);
  // Weights are nobody's to differentiate.
  c10::InferenceMode inference;
  // A request reads the states that the one before it has left.
  traffic = std::make_shared<Traffic>(options.timeout, !plan->states.empty() ? 1
                                                       : options.requests    ? options.requests
                                                                             : 2 * devices.size() + 2);
  for (uint32_t index = 0; index < devices.size(); ++index) {
    auto rank = Rank::load(*plan, directory, index, *devices[index], operators, states[tensorRankOf(*plan, index)],
                           options.checkTypes, options.trace);
    if (!rank)
      return rank.takeError();
    ranks.push_back(std::move(*rank));
  }
  for (uint32_t signature = 0; signature < plan->signatures.size(); ++signature) {
    Route route{plan::transfers(*plan, signature).size() * plan->mesh->tp, {}};
    for (uint32_t index = 0; index < ranks.size(); ++index)
      if (ranks[index]->takesPart(signature))
        route.ranks.push_back(index);
    routes.push_back(std::move(route));
  }
  return Error::success();
}

/// The inputs as the programs were compiled for: their elements in order, none of them lazily conjugated.
static std::vector<at::Tensor> inOrder(llvm::ArrayRef<at::Tensor> inputs) {
  c10::InferenceMode inference;
  std::vector<at::Tensor> tensors;
  for (const at::Tensor &input : inputs)
    tensors.push_back(input.resolve_conj().resolve_neg().contiguous());
  return tensors;
}

Error Session::Impl::enter() {
  if (traffic->enter())
    return Error::success();
  return llvm::createStringError("no room for another request after " + llvm::Twine(options.timeout.count()) +
                                 " s; allow more time (--timeout)");
}

Expected<std::shared_ptr<Request>> Session::Impl::submit(llvm::ArrayRef<at::Tensor> inputs,
                                                         uint32_t signature) {
  if (signature >= plan->signatures.size())
    return llvm::createStringError("found signature " + llvm::Twine(signature) + ", expected less than " +
                                   llvm::Twine(plan->signatures.size()));
  auto symbols = bindSymbols(*plan->signatures[signature], inputs);
  if (!symbols)
    return symbols.takeError();
  const Route &route = routes[signature];
  std::vector<at::Tensor> leaves = inOrder(inputs);
  Microbatches microbatches(*plan->signatures[signature], scheduleOf(*plan, signature).microbatches,
                            std::move(*symbols));
  auto request = std::make_shared<Request>(submitted++, std::move(leaves), std::move(microbatches),
                                           plan->signatures[signature]->outputs.size(), route.transfers,
                                           route.ranks, plan->mesh->tp, traffic, states, outputPlace);
  if (Error error = enter())
    return error;
  std::lock_guard lock(submission);
  llvm::erase_if(underWay, [](const std::weak_ptr<Request> &request) { return request.expired(); });
  underWay.push_back(request);
  for (uint32_t index : route.ranks)
    devices[index]->post(
        [rank = ranks[index].get(), request, signature] { rank->execute(*request, signature); });
  return request;
}

Session::Session(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Session::~Session() = default;

Expected<std::unique_ptr<Session>> Session::open(llvm::StringRef planDirectory, SessionOptions options) {
  auto loaded = plan::readPlan(planDirectory);
  if (!loaded)
    return loaded.takeError();
  return catching([&]() -> Expected<std::unique_ptr<Session>> {
    auto impl = std::make_unique<Impl>(std::move(loaded->plan), std::move(options));
    if (Error error = impl->load(planDirectory))
      return error;
    return std::unique_ptr<Session>(new Session(std::move(impl)));
  });
}

const plan::Plan &Session::plan() const { return *impl->plan; }

Expected<std::unique_ptr<Session::Pending>> Session::start(llvm::ArrayRef<at::Tensor> inputs,
                                                           uint32_t signature) {
  auto request = catching([&] { return impl->submit(inputs, signature); });
  if (!request)
    return request.takeError();
  return std::unique_ptr<Pending>(
      new Pending(std::make_unique<Pending::Impl>(Pending::Impl{std::move(*request)})));
}

Expected<std::vector<at::Tensor>> Session::run(llvm::ArrayRef<at::Tensor> inputs, uint32_t signature) {
  auto pending = start(inputs, signature);
  if (!pending)
    return pending.takeError();
  return (*pending)->wait();
}

Error Session::resetState() {
  if (plan().states.empty())
    return Error::success();
  if (Error error = impl->enter())
    return error;
  for (States &states : impl->states)
    states.reset();
  impl->traffic->leave();
  return Error::success();
}

std::vector<DeviceStatistics> Session::statistics() const {
  std::vector<DeviceStatistics> all;
  for (uint32_t index = 0; index < impl->ranks.size(); ++index) {
    const Rank &rank = *impl->ranks[index];
    all.push_back(
        {rank.device().name(), index, rank.weightBytes(), rank.device().peakBytes(), rank.busySeconds()});
  }
  return all;
}

std::vector<TraceEvent> Session::takeTrace() {
  std::vector<TraceEvent> all;
  for (const auto &rank : impl->ranks)
    llvm::append_range(all, rank->takeTrace());
  return all;
}

Session::Pending::Pending(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

Session::Pending::~Pending() { llvm::consumeError(impl->request->wait().takeError()); }

Expected<std::vector<at::Tensor>> Session::Pending::wait() { return impl->request->wait(); }

} // namespace cleave::runtime
