//===- Session.cpp --------------------------------------------------------===//
#include "runtime/session/Session.h"
#include "codegen/plan/Batch.h"
#include "codegen/plan/PlanFacts.h"
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/Schedule.h"
#include "runtime/base/Exceptions.h"
#include "runtime/comm/process/DeviceLinks.h"
#include "runtime/device/Device.h"
#include "runtime/device/Placement.h"
#include "runtime/exchange/Inputs.h"
#include "runtime/exchange/PeerExchange.h"
#include "runtime/executor/SetupWatch.h"
#include "runtime/schedule/RequestList.h"
#include "runtime/schedule/Route.h"
#include "runtime/session/Closing.h"
#include "runtime/session/FailureCallback.h"
#include "runtime/session/Lead.h"
#include "runtime/session/Precision.h"
#include "llvm/ADT/STLExtras.h"
#include <c10/core/InferenceMode.h>
#include <deque>
#include <mutex>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;

/// What a plan's ranks may hold beyond its limits when it runs: predictions leave out the workspace of some
/// kernels, and requests may be larger than the traced one.
static int64_t withTolerance(int64_t limit) {
  constexpr int64_t kLargest = INT64_MAX / 2;
  return limit > kLargest ? INT64_MAX : limit + limit / 8 + (int64_t(64) << 20);
}

struct Session::Impl {
  Impl(std::unique_ptr<plan::Plan> plan, SessionOptions options)
      : plan(std::move(plan)), options(std::move(options)), operators(*this->plan),
        states(this->plan->mesh->tp, States(this->plan->states.size())) {}
  ~Impl();
  /// Meets the other processes, if there are any, and loads what this one runs.
  Error open(llvm::StringRef directory, const plan::Digest &checksum);
  Error join(const plan::Digest &checksum);
  Error load(llvm::StringRef directory);
  /// The devices of these ranks, and the one for outputs.
  Expected<std::vector<ResolvedDevice>> resolveOwn(llvm::ArrayRef<uint32_t> own);
  Error loadRanks(const plan::OpenShards &shards, llvm::ArrayRef<uint32_t> own);
  Error serve();
  std::shared_ptr<Exchange> connect(const Route &route, uint32_t microbatches, Patience &patience);
  bool leads() const { return lead && peers->rank() == 0; }
  /// Fails where the caller is led.
  Error checkMayCall() const;
  Expected<std::shared_ptr<Request>> submit(llvm::ArrayRef<at::Tensor> inputs, uint32_t signature);
  /// Gives an admitted request to the other processes and to the ranks of this one.
  Expected<std::shared_ptr<Request>> begin(Traffic::Admission admission, std::vector<at::Tensor> inputs,
                                           Microbatches microbatches, uint32_t signature);
  void post(const std::shared_ptr<Request> &request, uint32_t signature, bool collects);
  /// Outputs of other processes.
  void takeOutputs(Request &request, uint32_t signature);
  Error reset();
  /// Does what process 0 has this one do.
  Error carryOut();
  /// Takes leave of the other processes, once.
  Error close();
  /// Waits for room for a request.
  Expected<Traffic::Admission> enter();
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
  std::vector<Route> routes;
  std::shared_ptr<Traffic> traffic;
  c10::Device outputPlace = c10::kCPU;
  /// What to add to times of this process for those of process 0.
  TraceEvent::Clock::duration clockOffset{};

  /// Held while a request is given to other processes and to its ranks: all must take up the requests in one
  /// order.
  std::mutex submission;
  RequestList underWay;
  std::atomic<uint64_t> submitted{0};
  /// Null where all ranks are in this process.
  Peers::Owner peers;
  /// This process' own, where it is one of several, and what its GPU reaches.
  ResolvedDevice ownDevice;
  std::unique_ptr<DeviceLinks> links;
  std::shared_ptr<PeerExchange> peerExchange;
  bool isClosed = false;
  /// Null where nobody wants to hear of a failure.
  std::unique_ptr<FailureCallback> failureCallback;
  /// Null where no process leads.
  std::unique_ptr<Lead> lead;
  /// Waits for the outputs of other processes, so that no rank has to.
  std::unique_ptr<Device> collector;
  /// One a rank of this process. The last member: their threads end before what they use is gone.
  std::vector<std::unique_ptr<Device>> devices;
};

struct Session::Pending::Impl {
  std::shared_ptr<Request> request;
};

Error Session::Impl::close() {
  if (!peerExchange || std::exchange(isClosed, true))
    return Error::success();
  if (leads())
    if (Error error = lead->give({Order::Kind::End}))
      return error;
  return peers->leave();
}

Session::Impl::~Impl() {
  // Fails where the run has failed, which has been told.
  llvm::consumeError(close());
  if (peers) {
    peers->stopServing();
    peers->wire().cut();
  }
  if (links)
    links->abort();
  underWay.fail("the session was closed while the request was under way");
  collector.reset();
  failureCallback.reset();
}

//===- Opening ------------------------------------------------------------===//

Error Session::Impl::open(llvm::StringRef directory, const plan::Digest &checksum) {
  if (Error error = checkSupported(*plan))
    return error;
  if (options.launch) {
    if (Error error = join(checksum))
      return error;
  } else if (Error error = checkDevices(*plan, options.devices)) {
    return error;
  }
  auto loadAll = [&] {
    Error error = options.met ? options.met() : Error::success();
    return error ? std::move(error) : load(directory);
  };
  if (Error error = loadAll())
    return peers ? llvm::createStringError(peers->fail("rank " + std::to_string(peers->rank()) + ": " +
                                                       llvm::toString(std::move(error))))
                 : std::move(error);
  return peers ? serve() : Error::success();
}

Error Session::Impl::join(const plan::Digest &checksum) {
  const size_t ranks = rankCount(*plan);
  if (options.launch->size != ranks)
    return llvm::createStringError("plan was compiled for %zu ranks, %u processes were started; start %zu",
                                   ranks, options.launch->size, ranks);
  // Sessions that a process opens one after the other have nothing of each other's in the store.
  static std::atomic<uint32_t> opened{0};
  Launch launch = *options.launch;
  launch.prefix += "/" + std::to_string(opened++);
  return Peers::join(launch, "plan", plan::toHex(checksum), {options.timeout, options.loadTimeout})
      .moveInto(peers);
}

Expected<std::vector<ResolvedDevice>> Session::Impl::resolveOwn(llvm::ArrayRef<uint32_t> own) {
  auto expanded = expandDevices(options.devices, rankCount(*plan), options.launch);
  if (!expanded)
    return expanded.takeError();
  auto names = nameDevices(std::move(*expanded), rankCount(*plan));
  if (!names)
    return names.takeError();
  std::vector<ResolvedDevice> resolved;
  for (uint32_t rank : own) {
    auto device = resolveDevice((*names)[rank]);
    if (!device)
      return device.takeError();
    if (const auto limit = memoryLimitOf(*plan, rank))
      device->memoryLimit = withTolerance(*limit);
    resolved.push_back(std::move(*device));
  }
  auto outputDevice = resolveDevice(options.outputDevice);
  if (!outputDevice)
    return llvm::createStringError("outputs: " + llvm::toString(outputDevice.takeError()));
  if (peers && !outputDevice->place.is_cpu())
    return llvm::createStringError("outputs: device " + options.outputDevice +
                                   ": several processes give outputs in main memory; give cpu:0");
  outputPlace = outputDevice->place;
  return resolved;
}

Error Session::Impl::loadRanks(const plan::OpenShards &shards, llvm::ArrayRef<uint32_t> own) {
  // Weights are nobody's to differentiate.
  c10::InferenceMode inference;
  // Several processes look after each other.
  const SetupWatch watch(options.loadTimeout, peers ? nullptr : options.overdue);
  for (auto [index, device] : llvm::zip(own, devices)) {
    auto rank = Rank::load(*plan, shards.at(index), index, *device, operators,
                           states[plan::tensorRankOf(*plan, index)],
                           {options.checkTypes, options.trace, options.cudaGraphs});
    if (!rank)
      return rank.takeError();
    ranks.push_back(std::move(*rank));
  }
  return Error::success();
}

Error Session::Impl::load(llvm::StringRef directory) {
  std::vector<uint32_t> own;
  for (uint32_t rank = 0; rank < rankCount(*plan); ++rank)
    if (!peers || rank == peers->rank())
      own.push_back(rank);
  auto resolved = resolveOwn(own);
  if (!resolved)
    return resolved.takeError();
  if (Error error = setPrecision(options, *resolved))
    return error;
  auto shards = plan::openShards(*plan, directory, own);
  if (!shards)
    return shards.takeError();
  for (const std::string &library : options.libraries)
    if (Error error = loadLibrary(library))
      return error;
  if (Error error = checkOperators(*plan, options.allowedOperators))
    return error;
  if (peers)
    collector = startHelper("outputs");
  ownDevice = resolved->front();
  devices = startDevices(*resolved, options.launch ? options.launch->localSize : 1, options.autocast);
  // A request reads the states that the one before it has left.
  traffic = std::make_shared<Traffic>(options.timeout, mostUnderWay());
  if (Error error = loadRanks(*shards, own))
    return error;
  for (uint32_t signature = 0; signature < plan->signatures.size(); ++signature)
    routes.emplace_back(*plan, signature, ranks);
  return Error::success();
}

/// Begins to answer the other processes.
Error Session::Impl::serve() {
  if (Error error = DeviceLinks::open(*plan, *peers, ownDevice, options.timeout).moveInto(links))
    return error;
  peerExchange =
      std::make_shared<PeerExchange>(*plan, *peers, devices.front()->memory(), options.led, *links);
  auto status = [this] { return ranks.front()->describe(peerExchange->awaited(peers->rank())); };
  peerExchange->setStatus(status);
  if (options.failed)
    failureCallback = std::make_unique<FailureCallback>(options.failed);
  auto failed = [this](const std::string &message) {
    underWay.fail(message);
    if (failureCallback)
      failureCallback->call(message);
    // Last: requests have failed before anything that is cut short could be taken for a value, and NCCL may
    // take its time.
    links->abort();
  };
  auto tick = [this] { underWay.checkDeadlines(); };
  peers->serve({status, failed, tick});
  if (Error error = agreeWhoLeads(*peers, options.led))
    return error;
  if (options.led)
    lead = std::make_unique<Lead>(*plan, *peers, devices.front()->memory());
  return options.trace ? peers->clockOffset().moveInto(clockOffset) : Error::success();
}

//===- Requests -----------------------------------------------------------===//

size_t Session::Impl::mostUnderWay() const {
  if (!plan->states.empty())
    return 1;
  return options.requests ? options.requests : 2 * rankCount(*plan) + 2;
}

std::shared_ptr<Exchange> Session::Impl::connect(const Route &route, uint32_t microbatches,
                                                 Patience &patience) {
  if (peerExchange)
    return peerExchange;
  return route.connect(microbatches, patience);
}

std::function<void(const std::string &)> Session::Impl::onOverdue() const {
  if (peers)
    return nullptr;
  return [closing = closing, told = options.overdue](const std::string &message) {
    closing->begin(message);
    if (told)
      told(message);
  };
}

Expected<Traffic::Admission> Session::Impl::enter() {
  if (Error error = closing->check())
    return error;
  if (Traffic::Admission admission = traffic->enter())
    return admission;
  return llvm::createStringError("no room for another request after " + llvm::Twine(options.timeout.count()) +
                                 " s; allow more time (--timeout)");
}

Expected<std::shared_ptr<Request>> Session::Impl::submit(llvm::ArrayRef<at::Tensor> inputs,
                                                         uint32_t signature) {
  if (signature >= plan->signatures.size())
    return llvm::createStringError("found signature " + llvm::Twine(signature) + ", expected less than " +
                                   llvm::Twine(plan->signatures.size()));
  const Route &route = routes[signature];
  auto symbols = bindSymbols(*plan->signatures[signature], inputs, /*sizesAlone=*/!route.readsInputs);
  if (!symbols)
    return symbols.takeError();
  std::vector<at::Tensor> leaves = inOrder(inputs);
  Microbatches microbatches(*plan->signatures[signature],
                            plan::microbatchesOfAll(*plan, scheduleOf(*plan, signature)),
                            std::move(*symbols));
  auto admission = enter();
  if (!admission)
    return admission.takeError();
  auto request = catching(
      [&] { return begin(std::move(*admission), std::move(leaves), std::move(microbatches), signature); });
  if (request || !peers)
    return request;
  // Others may have begun what this process does not do.
  return llvm::createStringError(
      peers->fail("rank " + std::to_string(peers->rank()) + ": " + llvm::toString(request.takeError())));
}

Expected<std::shared_ptr<Request>> Session::Impl::begin(Traffic::Admission admission,
                                                        std::vector<at::Tensor> inputs,
                                                        Microbatches microbatches, uint32_t signature) {
  const uint32_t count = microbatches.count();
  const bool collects = peerExchange && peerExchange->takesOutputs(signature);
  std::lock_guard lock(submission);
  if (leads())
    if (Error error = lead->give({Order::Kind::Run, signature, inputs}))
      return error;
  auto request = std::make_shared<Request>(
      submitted++, std::move(inputs), std::move(microbatches), plan->signatures[signature]->outputs.size(),
      routes[signature].ranks, traffic, std::move(admission), states,
      [&](Patience &patience) { return connect(routes[signature], count, patience); }, outputPlace, collects,
      onOverdue());
  underWay.add(request);
  post(request, signature, collects);
  return request;
}

void Session::Impl::post(const std::shared_ptr<Request> &request, uint32_t signature, bool collects) {
  llvm::ArrayRef<size_t> left = routes[signature].places;
  try {
    for (; !left.empty(); left = left.drop_front())
      devices[left.front()]->post(
          [rank = ranks[left.front()].get(), request, signature] { rank->execute(*request, signature); });
    if (collects)
      collector->post([this, request, signature] { takeOutputs(*request, signature); });
  } catch (const std::exception &exception) {
    // Ranks that have it would wait for those that have not.
    request->fail(messageOf(exception));
    for (size_t place : left)
      request->leave(ranks[place]->number(), devices[place]->memory());
    if (collects)
      request->leave(std::nullopt, devices.front()->memory());
  }
}

void Session::Impl::takeOutputs(Request &request, uint32_t signature) {
  const std::string who = "rank " + std::to_string(peers->rank());
  if (!request.failed())
    try {
      request.takeOutputs(signature);
    } catch (const PeerLost &lost) {
      request.fail(peers->lose(lost.rank, who + " waited for outputs"));
    } catch (const std::exception &exception) {
      request.fail(who + ": outputs: " + messageOf(exception));
    }
  request.leave(std::nullopt, devices.front()->memory());
}

Error Session::Impl::reset() {
  auto admission = enter();
  if (!admission)
    return admission.takeError();
  std::lock_guard lock(submission);
  if (leads())
    if (Error error = lead->give({Order::Kind::Reset}))
      return error;
  for (States &each : states)
    each.reset();
  return Error::success();
}

Error Session::Impl::checkMayCall() const {
  if (!lead || leads())
    return Error::success();
  return llvm::createStringError("rank " + llvm::Twine(peers->rank()) +
                                 " is led by rank 0, which starts requests; call serve() here");
}

Error Session::Impl::carryOut() {
  std::deque<std::shared_ptr<Request>> begun;
  auto finish = [&](size_t left) -> Error {
    for (; begun.size() > left; begun.pop_front())
      if (auto outputs = begun.front()->wait(); !outputs)
        return outputs.takeError();
    return Error::success();
  };
  for (;;) {
    auto order = lead->take();
    if (!order)
      return order.takeError();
    if (order->kind == Order::Kind::End)
      return finish(0);
    if (order->kind == Order::Kind::Reset) {
      if (Error error = reset())
        return error;
      continue;
    }
    auto request = submit(order->inputs, order->signature);
    if (!request)
      return llvm::createStringError(
          peers->fail("rank " + std::to_string(peers->rank()) + ": " + llvm::toString(request.takeError())));
    begun.push_back(std::move(*request));
    if (Error error = finish(mostUnderWay()))
      return error;
  }
}

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
                                                           uint32_t signature) {
  if (Error error = impl->checkMayCall())
    return error;
  return catching([&]() -> Expected<std::unique_ptr<Pending>> {
    auto request = impl->submit(inputs, signature);
    if (!request)
      return request.takeError();
    return std::unique_ptr<Pending>(
        new Pending(std::make_unique<Pending::Impl>(Pending::Impl{std::move(*request)})));
  });
}

Expected<std::vector<at::Tensor>> Session::run(llvm::ArrayRef<at::Tensor> inputs, uint32_t signature) {
  auto pending = start(inputs, signature);
  if (!pending)
    return pending.takeError();
  return (*pending)->wait();
}

Error Session::resetState() {
  if (Error error = impl->checkMayCall())
    return error;
  return plan().states.empty() ? Error::success() : catching([&] { return impl->reset(); });
}

Error Session::serve() {
  if (!impl->lead || impl->leads())
    return llvm::createStringError("this process is not led by another, so that it has none to serve; see "
                                   "SessionOptions::led");
  return catching([&] { return impl->carryOut(); });
}

std::vector<DeviceStatistics> Session::statistics() const {
  std::vector<DeviceStatistics> all;
  for (const auto &rank : impl->ranks)
    all.push_back({rank->device().name(), rank->number(), rank->weightBytes(), rank->device().peakBytes(),
                   rank->busySeconds(), rank->eagerStages()});
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

uint32_t Session::process() const { return impl->peers ? impl->peers->rank() : 0; }

uint32_t Session::processes() const { return impl->peers ? impl->peers->size() : 1; }

uint32_t Session::outputProcess(uint32_t signature) const {
  return impl->peers && !impl->lead ? outputRankOf(plan(), signature) : 0;
}

bool Session::needsInputs(uint32_t signature) const { return impl->routes[signature].readsInputs; }

Error Session::meet() { return impl->peers ? impl->peers->meet() : Error::success(); }

Expected<std::vector<std::string>> Session::gather(llvm::StringRef text, uint32_t to, size_t most) {
  return impl->peers ? impl->peers->gather(text, to, most) : std::vector<std::string>{text.str()};
}

Expected<std::string> Session::share(llvm::StringRef text, uint32_t from) {
  return impl->peers ? impl->peers->share(text, from) : text.str();
}

std::string Session::fail(const std::string &message) {
  if (!impl->peers)
    return message;
  std::string agreed = impl->peers->fail(message);
  impl->peers->linger();
  return agreed;
}

Session::Pending::Pending(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

Session::Pending::~Pending() { llvm::consumeError(wait().takeError()); }

Expected<std::vector<at::Tensor>> Session::Pending::wait() {
  return catching([&] { return impl->request->wait(); });
}

} // namespace cleave::runtime
