//===- SessionOpening.cpp - Opening and closing a session -----------------===//
#include "codegen/plan/PlanQueries.h"
#include "runtime/executor/SetupWatch.h"
#include "runtime/session/Precision.h"
#include "runtime/session/SessionImpl.h"
#include "llvm/ADT/STLExtras.h"
#include <c10/core/InferenceMode.h>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;

/// Bytes that a plan's ranks may hold at run time, above its limit: predictions leave out the workspace of
/// some kernels, and requests may be larger than the traced one.
static int64_t withTolerance(int64_t limit) {
  constexpr int64_t kLargest = INT64_MAX / 2;
  return limit > kLargest ? INT64_MAX : limit + limit / 8 + (int64_t(64) << 20);
}

Error Session::Impl::open(llvm::StringRef directory, const plan::Digest &checksum) {
  if (Error error = checkSupported(*plan))
    return error;
  if (options.launch) {
    if (Error error = join(checksum))
      return error;
  } else if (Error error = checkDevices(*plan, options.devices)) {
    return error;
  }
  return reportingFailure([&]() -> Error {
    Error error = options.onRendezvous ? options.onRendezvous() : Error::success();
    if (!error)
      error = load(directory);
    if (!membership)
      return error;
    return error ? failAll(llvm::toString(std::move(error))) : connectRanks();
  });
}

Error Session::Impl::failAll(const std::string &message) {
  return llvm::createStringError(
      membership ? membership->fail("rank " + std::to_string(membership->rank()) + ": " + message) : message);
}

Error Session::Impl::join(const plan::Digest &checksum) {
  const size_t ranks = rankCount(*plan);
  if (options.launch->size != ranks)
    return llvm::createStringError("plan was compiled for %zu ranks, %u processes were started; start %zu",
                                   ranks, options.launch->size, ranks);
  // Successive sessions of a process use different keys of the store.
  static std::atomic<uint32_t> opened{0};
  Launch launch = *options.launch;
  launch.prefix += "/" + std::to_string(opened++);
  return Membership::join(launch, "plan", plan::toHex(checksum), {options.timeout, options.loadTimeout})
      .moveInto(membership);
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
  auto resolvedOutput = resolveDevice(options.outputDevice);
  if (!resolvedOutput)
    return llvm::createStringError("outputs: " + llvm::toString(resolvedOutput.takeError()));
  if (membership && !resolvedOutput->torchDevice.is_cpu())
    return llvm::createStringError("outputs: device " + options.outputDevice +
                                   ": several processes give outputs in main memory; give cpu:0");
  outputDevice = resolvedOutput->torchDevice;
  return resolved;
}

Error Session::Impl::loadRanks(const plan::OpenShards &shards, llvm::ArrayRef<uint32_t> own) {
  // Weights need no gradients.
  c10::InferenceMode inference;
  // With several processes, Membership watches the loading.
  const SetupWatch watch(options.loadTimeout, membership ? nullptr : options.onTimeout);
  for (auto [index, worker] : llvm::zip(own, workers)) {
    auto rank = Rank::load(*plan, shards.at(index), index, *worker, operators,
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
    if (!membership || rank == membership->rank())
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
  if (membership)
    collector = startHelperThread("outputs");
  ownDevice = resolved->front();
  workers = startWorkers(*resolved, options.launch ? options.launch->localSize : 1, options.autocast);
  admissions = std::make_shared<AdmissionController>(options.timeout, mostUnderWay());
  if (Error error = loadRanks(*shards, own))
    return error;
  for (uint32_t signature = 0; signature < plan->signatures.size(); ++signature)
    rankSets.emplace_back(*plan, signature, ranks);
  return Error::success();
}

Error Session::Impl::connectRanks() {
  if (Error error = DeviceLinks::open(*plan, *membership, ownDevice, options.timeout).moveInto(links))
    return error;
  peerExchange = std::make_shared<PeerExchange>(*plan, *membership, workers.front()->memory(),
                                                options.hasCoordinator, *links);
  auto status = [this] { return ranks.front()->describe(peerExchange->awaited(membership->rank())); };
  if (options.onFailure)
    failureCallback = std::make_unique<FailureCallback>(options.onFailure);
  auto failed = [this](const std::string &message) {
    underWay.cancel(message);
    if (failureCallback)
      failureCallback->call(message);
    // Last: by now requests have failed, so none uses the result of an aborted call; and NCCL may take its
    // time.
    links->abort();
  };
  auto tick = [this] { underWay.checkDeadlines(); };
  membership->setClient({status, failed, tick});
  if (Error error = agreeOnCoordinator(*membership, options.hasCoordinator))
    return error;
  if (options.hasCoordinator)
    commands = std::make_unique<CommandChannel>(*plan, *membership, workers.front()->memory());
  return options.trace ? membership->clockOffset().moveInto(clockOffset) : Error::success();
}

Error Session::Impl::close() {
  if (!peerExchange || std::exchange(isClosed, true))
    return Error::success();
  if (isCoordinator())
    if (Error error = commands->send({Command::Kind::End}))
      return error;
  return membership->leave();
}

Session::Impl::~Impl() {
  // Fails if the run has failed, which was reported already.
  llvm::consumeError(close());
  if (membership) {
    membership->clearClient();
    membership->transport().close();
  }
  if (links)
    links->abort();
  underWay.cancel("the session was closed while the request was under way");
  collector.reset();
  failureCallback.reset();
}

} // namespace cleave::runtime
