//===- PeersJoin.cpp - How the processes of a run meet --------------------===//
#include "runtime/Exceptions.h"
#include "runtime/OwnAddress.h"
#include "runtime/Peers.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <future>
#include <sys/utsname.h>
#include <unistd.h>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

/// Where the lifeline is held.
static constexpr char kLifeline[] = "lifeline";
/// How long after the deadline a store is given up that does not answer: as long as connecting at the last
/// moment may take.
static constexpr auto kGivenUp = 1s;
/// How long what joins has to see that the run has failed.
static constexpr auto kNotice = 200ms;

static std::string comeOf(uint32_t rank) { return "come/" + std::to_string(rank); }

std::string Peers::storePlace() const { return launch.address + ":" + std::to_string(launch.port); }

Expected<Peers::Owner> Peers::join(const Launch &launch, const std::string &what, const std::string &value,
                                   std::chrono::seconds timeout) {
  auto *peers = new Peers(launch, timeout);
  auto failed = [&](const std::string &problem) {
    return llvm::createStringError("rank " + llvm::Twine(launch.rank) +
                                   " cannot join the others: " + problem);
  };
  // A store whose process is stopped answers never, and a process that is gone is waited for by those that
  // connect with it: then this thread and its object stay.
  std::packaged_task<std::string()> coming(
      [=] { return llvm::toString(catching([&] { return peers->come(what, value); })); });
  std::future<std::string> come = coming.get_future();
  std::thread(std::move(coming)).detach();
  const Clock::time_point end = Clock::now() + timeout + kGivenUp;
  while (come.wait_for(10ms) != std::future_status::ready) {
    if (peers->over && come.wait_for(kNotice) != std::future_status::ready) {
      peers->linger();
      return failed(llvm::toString(peers->failure()));
    }
    if (Clock::now() > end)
      return failed(peers->noStore());
  }
  Owner joined(peers);
  std::string problem = come.get();
  if (problem.empty())
    return joined;
  return failed(joined->beating.joinable() ? joined->fail(problem) : problem);
}

Error Peers::come(const std::string &what, const std::string &value) {
  const Clock::time_point deadline = Clock::now() + timeout;
  if (Error error = find())
    return error;
  try {
    utsname system;
    const std::string host = uname(&system) == 0 ? system.nodename : "?";
    store->set(beatOf(launch.rank), "0 is joining the others");
    store->set(comeOf(launch.rank), value + " " + std::to_string(launch.size) + " " + host);
    if (Error error = tie(deadline))
      return error;
    start();
    if (Error error = awaitAll(deadline))
      return error;
    haveAllCome = true;
    if (Error error = compare(what))
      return error;
  } catch (const std::exception &) {
    return llvm::createStringError("lost the store at " + storePlace() + "; its process has ended");
  }
  return connect(deadline);
}

Error Peers::find() {
  try {
    store = openStore(launch, timeout);
    return Error::success();
  } catch (const std::exception &) {
    if (holdsStore())
      return llvm::createStringError("cannot hold the store at " + storePlace() +
                                     "; expected MASTER_ADDR to be an address of this machine, MASTER_PORT "
                                     "a free port, and no other rank 0");
    return llvm::createStringError(noStore());
  }
}

std::string Peers::noStore() const {
  return "found no store at " + storePlace() + " that answers within " + std::to_string(timeout.count()) +
         " s; has " + (launch.agentHoldsStore ? "torchrun" : "rank 0") +
         " started, with the same MASTER_ADDR and MASTER_PORT?";
}

Error Peers::tie(Clock::time_point deadline) {
  std::optional<std::string> place;
  while (launch.rank != 0 && !(place = store->find(kLifeline))) {
    if (Clock::now() >= deadline)
      return notStarted("rank 0 has");
    std::this_thread::sleep_for(10ms);
  }
  try {
    lifeline = place ? Lifeline::reach(*place, launch.rank, deadline)
                     : Lifeline::hold(ownAddress(launch), launch.size);
  } catch (const std::exception &exception) {
    return llvm::createStringError(exception.what());
  }
  if (!place)
    store->set(kLifeline, lifeline->place());
  return Error::success();
}

Error Peers::notStarted(const std::string &who) const {
  return llvm::createStringError(who + " not started within " + std::to_string(timeout.count()) +
                                 " s; start " + std::to_string(launch.size) +
                                 " processes, or allow more time (--timeout)");
}

Error Peers::awaitAll(Clock::time_point deadline) {
  for (uint32_t rank = 0; rank < launch.size; ++rank)
    while (!store->find(comeOf(rank))) {
      if (over)
        return failure();
      if (Clock::now() >= deadline) {
        std::vector<std::string> missing;
        for (uint32_t other = rank; other < launch.size; ++other)
          if (!store->find(comeOf(other)))
            missing.push_back("rank " + std::to_string(other));
        return notStarted(llvm::join(missing, ", ") + (missing.size() == 1 ? " has" : " have"));
      }
      std::this_thread::sleep_for(10ms);
    }
  return Error::success();
}

Error Peers::compare(const std::string &what) {
  std::vector<std::string> keys, others;
  for (uint32_t rank = 0; rank < launch.size; ++rank)
    keys.push_back(comeOf(rank));
  const std::vector<std::string> words = store->values(keys);
  auto [firstValue, firstRest] = StringRef(words[0]).split(' ');
  auto [firstSize, firstHost] = firstRest.split(' ');
  for (uint32_t rank = 1; rank < launch.size; ++rank) {
    auto [value, rest] = StringRef(words[rank]).split(' ');
    auto [size, host] = rest.split(' ');
    if (size != firstSize)
      return llvm::createStringError("rank " + llvm::Twine(rank) + " counts " + size + " processes, rank 0 " +
                                     firstSize + "; start them together");
    if (value != firstValue)
      others.push_back("rank " + std::to_string(rank) + " (" + value.take_front(12).str() + ", on " +
                       host.str() + ")");
  }
  if (others.empty())
    return Error::success();
  return llvm::createStringError("found another " + what + " at " + llvm::join(others, ", ") +
                                 " than at rank 0 (" + firstValue.take_front(12) + ", on " + firstHost +
                                 "); give all ranks the same");
}

Error Peers::connect(Clock::time_point deadline) {
  try {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    std::unique_ptr<Wire> made = openWire(launch, std::max<milliseconds>(left, 1s));
    std::lock_guard lock(mutex);
    messages = std::move(made);
    // The run may have failed meanwhile.
    if (over)
      messages->cut();
  } catch (const std::exception &exception) {
    return llvm::createStringError("no connections with all of them: " +
                                   StringRef(messageOf(exception)).split('\n').first);
  }
  return over ? failure() : Error::success();
}

} // namespace cleave::runtime
