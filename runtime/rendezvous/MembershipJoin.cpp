//===- MembershipJoin.cpp - How processes join a run ----------------------===//
#include "codegen/plan/text/Printable.h"
#include "runtime/base/Exceptions.h"
#include "runtime/base/HostAddress.h"
#include "runtime/rendezvous/Membership.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <future>
#include <random>
#include <sys/utsname.h>
#include <unistd.h>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

/// Least time to connect, even right before the deadline.
static constexpr auto kLeast = 500ms;
/// An attempt that is stuck is abandoned this long after the deadline.
static constexpr auto kGivenUp = 1s;
/// How long an attempt may take to notice that the run has failed.
static constexpr auto kNotice = 200ms;
/// Longest host name in messages.
static constexpr size_t kLongestHost = 255;

static std::string comeOf(uint32_t rank) { return "come/" + std::to_string(rank); }
static std::string ownerOf(uint32_t rank) { return "owner/" + std::to_string(rank); }

/// True if `problem` is a message of a rank that has joined, `rank 1: …`: all processes end with it
/// unchanged.
static bool isOfItsOwn(llvm::StringRef problem) {
  uint32_t rank;
  return problem.consume_front("rank ") && !problem.consumeInteger(10, rank) &&
         (problem.starts_with(": ") || problem.starts_with(" (stage "));
}

static std::string hostName() {
  utsname system;
  return uname(&system) == 0 ? system.nodename : "?";
}

/// Result of joining.
struct Membership::Attempt {
  Owner membership;
  /// Empty on success.
  std::string problem;
};

std::string Membership::storeAddress() const { return launch.address + ":" + std::to_string(launch.port); }

Expected<Membership::Owner> Membership::join(const Launch &launch, const std::string &what,
                                             const std::string &value, PeerLimits limits) {
  auto failed = [&](const std::string &problem) {
    if (isOfItsOwn(problem))
      return llvm::createStringError(problem);
    return llvm::createStringError("rank " + llvm::Twine(launch.rank) +
                                   " cannot join the others: " + problem);
  };
  Owner own(new Membership(launch, limits));
  Membership *const membership = own.get();
  // A store whose process is stopped never answers, and connecting waits for a process that is gone. An
  // abandoned attempt ends, with all that it owns, when its thread returns.
  std::packaged_task<Attempt()> coming([own = std::move(own), what, value]() mutable {
    std::string problem = own->attempt(what, value);
    return Attempt{std::move(own), std::move(problem)};
  });
  std::future<Attempt> come = coming.get_future();
  std::thread(std::move(coming)).detach();
  const Clock::time_point end = Clock::now() + limits.timeout + kGivenUp;
  while (come.wait_for(10ms) != std::future_status::ready) {
    if (membership->over && come.wait_for(kNotice) != std::future_status::ready) {
      membership->linger();
      return failed(llvm::toString(membership->failure()));
    }
    if (Clock::now() > end) {
      const std::string problem = membership->joinTimeoutReason();
      membership->commitFailure(problem);
      return failed(problem);
    }
  }
  auto [joined, problem] = come.get();
  if (problem.empty())
    return std::move(joined);
  return failed(joined->liveness ? joined->fail(problem) : problem);
}

std::string Membership::attempt(const std::string &what, const std::string &value) {
  try {
    return llvm::toString(joinRun(what, value));
  } catch (const std::exception &exception) {
    try {
      return "rank " + std::to_string(launch.rank) + ": " + messageOf(exception);
    } catch (const std::bad_alloc &) {
      return "out of memory";
    }
  }
}

Error Membership::joinRun(const std::string &what, const std::string &value) {
  const Clock::time_point deadline = Clock::now() + limits.timeout;
  if (Error error = openStoreAndEnter(deadline))
    return error;
  start();
  try {
    store->set(beatOf(launch.rank), "0 is joining the others");
    store->set(comeOf(launch.rank), value + " " + hostName());
    if (Error error = awaitAll(deadline))
      return error;
    haveAllCome = true;
    if (Error error = compare(what))
      return error;
  } catch (const std::exception &exception) {
    if (isOutOfResources(exception))
      throw;
    loseStore();
    return failure();
  }
  return connect(deadline);
}

Error Membership::openStoreAndEnter(Clock::time_point deadline) {
  for (;; std::this_thread::sleep_for(10ms)) {
    rootStore.reset();
    hasStore = false;
    try {
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
      rootStore = openStore(launch, limits.timeout, std::max<milliseconds>(left, 1ms));
      hasStore = true;
      return enter(deadline);
    } catch (const std::exception &exception) {
      if (isOutOfResources(exception))
        throw;
    }
    if (holdsStore())
      return llvm::createStringError("cannot hold the store at " + storeAddress() +
                                     "; expected MASTER_ADDR to be an address of this machine, MASTER_PORT "
                                     "a free port, and no other rank 0");
    if (launch.agentHoldsStore && rootStore)
      return llvm::createStringError("lost the store at " + storeAddress() +
                                     ", which torchrun's agent holds");
    // The store that was found may be that of rank 0's previous session.
    if (launch.agentHoldsStore || Clock::now() >= deadline)
      return llvm::createStringError(noStoreReason());
  }
}

std::string Membership::joinTimeoutReason() const {
  if (haveAllCome)
    return "no connections with all of them within " + std::to_string(limits.timeout.count()) +
           " s; allow more time (--timeout)";
  return hasStore ? "the store at " + storeAddress() + " has stopped answering" : noStoreReason();
}

std::string Membership::noStoreReason() const {
  return "found no store at " + storeAddress() + " that answers within " +
         std::to_string(limits.timeout.count()) + " s; has " +
         (launch.agentHoldsStore ? "torchrun" : "rank 0") +
         " started, with the same MASTER_ADDR and MASTER_PORT?";
}

// Rank 0 announces the run in the store: number of processes, host, and address and run id of its liveness
// connection. All other keys of the run begin with the id. Each rank of a run has one owner: the first
// process that claims it.

/// Address of the liveness connection, from the announcement of a run.
static std::string endpointOf(StringRef run) {
  const StringRef host = run.split(' ').second;
  const StringRef process = host.split(' ').second;
  return process.split(' ').second.str();
}

/// True if rank 0 of the run is gone, so that nobody can join the run any more.
static bool isLeft(StringRef run) {
  return LivenessMonitor::isGone(endpointOf(run), Membership::Clock::now() + kEarlierFailureWait);
}

Error Membership::enter(Clock::time_point deadline) {
  if (launch.rank == 0)
    return announceRun();
  std::optional<std::string> run;
  // A killed rank 0 may have left its announcement.
  while (!(run = rootStore->find(kRun)) || (isLeft(*run) && Clock::now() < deadline)) {
    if (Clock::now() >= deadline)
      return notStartedError("rank 0 has");
    std::this_thread::sleep_for(10ms);
  }
  return claimRank(*run, deadline);
}

Error Membership::announceRun() {
  std::unique_ptr<LivenessMonitor> monitor;
  try {
    monitor = LivenessMonitor::listen(hostAddress(launch), launch.size);
  } catch (const std::exception &exception) {
    return llvm::createStringError(exception.what());
  }
  const std::string owner = hostName() + " " + std::to_string(getpid()), endpoint = monitor->endpoint();
  const std::string run = std::to_string(launch.size) + " " + owner + " " + endpoint;
  std::string found = rootStore->setOnce(kRun, run);
  if (found != run && isLeft(found))
    found = rootStore->compareSet(kRun, found, run);
  if (found != run)
    return rankTakenError(StringRef(found).split(' ').second);
  const std::string runId = monitor->runId();
  enterRun(runId, std::move(monitor));
  return Error::success();
}

Error Membership::claimRank(StringRef run, Clock::time_point deadline) {
  const StringRef count = run.split(' ').first;
  const std::string endpoint = endpointOf(run);
  const std::string runId = StringRef(endpoint).rsplit(' ').second.str();
  uint32_t size = 0;
  if (count.getAsInteger(10, size) || runId.empty())
    return llvm::createStringError("found no run at " + storeAddress() + ", but '" +
                                   plan::printable(run, kLongestHost) + "'");
  if (size != launch.size)
    return llvm::createStringError("found a run of " + llvm::Twine(size) + " processes at " + storeAddress() +
                                   ", expected one of " + llvm::Twine(launch.size) +
                                   "; start them together, or give each run a MASTER_PORT of its own");
  // Two hosts may have the same name, as containers do.
  std::random_device random;
  const std::string owner = hostName() + " " + std::to_string(getpid()) + " " + std::to_string(random());
  const std::string found = rootStore->withPrefix(runId)->setOnce(ownerOf(launch.rank), owner);
  if (found != owner)
    return rankTakenError(found);
  try {
    enterRun(runId, LivenessMonitor::connect(endpoint, launch.rank, deadline));
  } catch (const std::exception &exception) {
    return llvm::createStringError(exception.what());
  }
  return Error::success();
}

Error Membership::rankTakenError(StringRef owner) const {
  auto [host, rest] = owner.split(' ');
  return llvm::createStringError(
      "another process is rank " + llvm::Twine(launch.rank) + " of the run at " + storeAddress() +
      " (process " + plan::printable(rest.split(' ').first, kLongestHost) + ", on " +
      plan::printable(host, kLongestHost) + "); give each run a MASTER_PORT of its own");
}

void Membership::enterRun(const std::string &runId, std::unique_ptr<LivenessMonitor> monitor) {
  store = rootStore->withPrefix(runId);
  launch.prefix += "/" + runId;
  std::lock_guard lock(mutex);
  liveness = std::move(monitor);
}

Error Membership::notStartedError(const std::string &who) const {
  return llvm::createStringError(who + " not started within " + std::to_string(limits.timeout.count()) +
                                 " s; start " + std::to_string(launch.size) +
                                 " processes, or allow more time (--timeout)");
}

Error Membership::awaitAll(Clock::time_point deadline) {
  for (uint32_t rank = 0; rank < launch.size; ++rank)
    while (!store->find(comeOf(rank))) {
      if (over)
        return failure();
      if (Clock::now() >= deadline) {
        std::vector<std::string> missing;
        for (uint32_t other = rank; other < launch.size; ++other)
          if (!store->find(comeOf(other)))
            missing.push_back("rank " + std::to_string(other));
        return notStartedError(llvm::join(missing, ", ") + (missing.size() == 1 ? " has" : " have"));
      }
      std::this_thread::sleep_for(10ms);
    }
  return Error::success();
}

Error Membership::compare(const std::string &what) {
  std::vector<std::string> keys, others;
  for (uint32_t rank = 0; rank < launch.size; ++rank)
    keys.push_back(comeOf(rank));
  const std::vector<std::string> entries = store->values(keys);
  auto describe = [](StringRef entry) {
    auto [value, host] = entry.split(' ');
    return "(" + plan::printable(value.take_front(12)) + ", on " + plan::printable(host, kLongestHost) + ")";
  };
  for (uint32_t rank = 1; rank < launch.size; ++rank)
    if (StringRef(entries[rank]).split(' ').first != StringRef(entries[0]).split(' ').first)
      others.push_back("rank " + std::to_string(rank) + " " + describe(entries[rank]));
  if (others.empty())
    return Error::success();
  return llvm::createStringError("found another " + what + " at " + llvm::join(others, ", ") +
                                 " than at rank 0 " + describe(entries[0]) + "; give all ranks the same");
}

Error Membership::connect(Clock::time_point deadline) {
  try {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    std::unique_ptr<Transport> made = openTransport(launch, std::max<milliseconds>(left, kLeast));
    std::lock_guard lock(mutex);
    messages = std::move(made);
    // The run may have failed meanwhile.
    if (over)
      messages->close();
  } catch (const std::exception &exception) {
    return llvm::createStringError(
        "rank " + llvm::Twine(launch.rank) +
        ": no connections with all of them: " + StringRef(messageOf(exception)).split('\n').first);
  }
  return over ? failure() : Error::success();
}

} // namespace cleave::runtime
