//===- Peers.cpp - The processes of a run, and how they end together ------===//
#include "runtime/Peers.h"
#include "runtime/Exceptions.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <future>
#include <sys/utsname.h>
#include <unistd.h>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using namespace std::chrono_literals;

/// How often a process tells what it does.
static constexpr auto kBeat = 200ms;
/// How long it says nothing before that is told.
static constexpr auto kSilence = 1500ms;
/// How long a process that fails waits to hear whether another has failed before.
static constexpr auto kLastWord = 1s;
static constexpr char kFailed[] = "failed";

static std::string keyOf(const char *what, uint32_t rank) {
  return std::string(what) + "/" + std::to_string(rank);
}

static std::string ofRank(uint32_t rank, StringRef text) {
  return ("rank " + llvm::Twine(rank) + " " + text).str();
}

static std::string seconds(Peers::Clock::duration duration) {
  return llvm::formatv("{0:f1} s", std::chrono::duration<double>(duration).count());
}

//===- Meeting ------------------------------------------------------------===//

Peers::Peers(const Launch &launch, std::chrono::seconds timeout)
    : launch(launch), timeout(timeout), known(launch.size) {}

std::string Peers::storePlace() const { return launch.address + ":" + std::to_string(launch.port); }

Expected<std::unique_ptr<Peers>> Peers::join(const Launch &launch, const std::string &plan,
                                             std::chrono::seconds timeout) {
  auto *peers = new Peers(launch, timeout);
  // A store whose process is stopped answers never, and c10d waits for it: then this thread and its object
  // stay.
  std::packaged_task<std::string()> coming(
      [=] { return llvm::toString(catching([&] { return peers->come(plan); })); });
  std::future<std::string> come = coming.get_future();
  std::thread(std::move(coming)).detach();
  if (come.wait_for(timeout + 2 * kLastWord) != std::future_status::ready)
    return llvm::createStringError(ofRank(launch.rank, "cannot join the others: the store at " +
                                                           peers->storePlace() + " does not answer"));
  std::unique_ptr<Peers> joined(peers);
  if (std::string problem = come.get(); !problem.empty()) {
    if (joined->store)
      joined->linger();
    return llvm::createStringError(ofRank(launch.rank, "cannot join the others: " + problem));
  }
  joined->start();
  return joined;
}

/// `host 4711`, for messages.
static std::string processName() {
  utsname system;
  return (uname(&system) == 0 ? std::string(system.nodename) : "?") + " " + std::to_string(getpid());
}

Error Peers::come(const std::string &plan) {
  const Clock::time_point deadline = Clock::now() + timeout;
  try {
    store = openStore(launch, timeout);
  } catch (const std::exception &) {
    if (launch.rank == 0 && !launch.agentHoldsStore)
      return llvm::createStringError("cannot hold the store at " + storePlace() +
                                     "; is the port in use? Choose another MASTER_PORT");
    return llvm::createStringError("found no store at " + storePlace() + " within " +
                                   std::to_string(timeout.count()) +
                                   " s; has rank 0 started, with the same MASTER_ADDR and MASTER_PORT?");
  }
  try {
    store->set(keyOf("come", launch.rank), plan + " " + std::to_string(launch.size) + " " + processName());
    if (Error error = awaitAll(deadline))
      return error;
    if (Error error = compare())
      return error;
  } catch (const std::exception &) {
    return llvm::createStringError("lost the store at " + storePlace() + "; its process has ended");
  }
  try {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    messages = openWire(*store, launch, std::max<std::chrono::milliseconds>(left, 1s));
  } catch (const std::exception &exception) {
    return llvm::createStringError("no connections with all of them: " +
                                   StringRef(messageOf(exception)).split('\n').first);
  }
  return Error::success();
}

Error Peers::awaitAll(Clock::time_point deadline) {
  for (uint32_t rank = 0; rank < launch.size; ++rank)
    while (!store->find(keyOf("come", rank))) {
      if (auto failure = store->find(kFailed))
        return llvm::createStringError(*failure);
      if (Clock::now() >= deadline) {
        std::vector<std::string> missing;
        for (uint32_t other = rank; other < launch.size; ++other)
          if (!store->find(keyOf("come", other)))
            missing.push_back("rank " + std::to_string(other));
        return llvm::createStringError(store->setOnce(
            kFailed, llvm::join(missing, ", ") + (missing.size() == 1 ? " has" : " have") +
                         " not started within " + std::to_string(timeout.count()) + " s; start " +
                         std::to_string(launch.size) + " processes, or allow more time (--timeout)"));
      }
      std::this_thread::sleep_for(10ms);
    }
  return Error::success();
}

Error Peers::compare() {
  std::vector<std::string> keys, others;
  for (uint32_t rank = 0; rank < launch.size; ++rank)
    keys.push_back(keyOf("come", rank));
  const std::vector<std::string> words = store->values(keys);
  auto [firstPlan, firstRest] = StringRef(words[0]).split(' ');
  for (uint32_t rank = 1; rank < launch.size; ++rank) {
    auto [otherPlan, rest] = StringRef(words[rank]).split(' ');
    if (rest.split(' ').first != firstRest.split(' ').first)
      return llvm::createStringError("rank " + llvm::Twine(rank) + " counts " + rest.split(' ').first +
                                     " processes, rank 0 " + firstRest.split(' ').first +
                                     "; start them together");
    if (otherPlan != firstPlan)
      others.push_back("rank " + std::to_string(rank) + " (" + otherPlan.take_front(12).str() + ", on " +
                       rest.split(' ').second.split(' ').first.str() + ")");
  }
  if (others.empty())
    return Error::success();
  return llvm::createStringError("found another plan at " + llvm::join(others, ", ") + " than at rank 0 (" +
                                 firstPlan.take_front(12) + ", on " +
                                 firstRest.split(' ').second.split(' ').first + "); give all ranks the same");
}

//===- Watching -----------------------------------------------------------===//

void Peers::start() {
  answered = Clock::now();
  for (Known &peer : known)
    peer.changed = answered;
  beating = std::thread([this] { beat(); });
  living = std::thread([this] { watchLife(); });
  ticking = std::thread([this] { watchClock(); });
}

Peers::~Peers() {
  if (over)
    linger();
  stop();
}

void Peers::stop() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (messages)
    messages->cut();
  for (std::thread *thread : {&beating, &living, &ticking})
    if (thread->joinable())
      thread->join();
}

void Peers::serve(PeersClient served) {
  std::lock_guard lock(mutex);
  client = std::make_shared<const PeersClient>(std::move(served));
}

void Peers::stopServing() {
  std::unique_lock lock(mutex);
  client = nullptr;
  changed.wait(lock, [&] { return calls == 0; });
}

void Peers::call(llvm::function_ref<void(const PeersClient &)> ask) {
  std::unique_lock lock(mutex);
  const std::shared_ptr<const PeersClient> asked = client;
  if (!asked)
    return;
  ++calls;
  lock.unlock();
  ask(*asked);
  lock.lock();
  --calls;
  changed.notify_all();
}

void Peers::beat() {
  for (uint64_t count = 1;; ++count) {
    try {
      beatOnce(count);
    } catch (const std::exception &) {
      settle(launch.agentHoldsStore
                 ? "lost the store at " + storePlace() + ", which torchrun's agent holds; " + describeOthers()
                 : deathOf(0) + "; it held the store at " + storePlace());
    }
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kBeat, [&] { return stopping || leaving || over || !proposed.empty(); });
    if (stopping || leaving || over)
      return;
  }
}

void Peers::beatOnce(uint64_t count) {
  std::string status = "is loading the plan", proposal;
  call([&](const PeersClient &asked) { status = asked.status(); });
  store->set(keyOf("beat", launch.rank), std::to_string(count) + " " + status);
  {
    std::lock_guard lock(mutex);
    proposal = proposed;
  }
  if (!proposal.empty())
    return settle(store->setOnce(kFailed, proposal));
  if (auto failure = store->find(kFailed))
    return settle(*failure);
  noteBeats();
}

void Peers::noteBeats() {
  for (uint32_t rank = 0; rank < launch.size; ++rank) {
    auto beat = store->find(keyOf("beat", rank));
    std::lock_guard lock(mutex);
    answered = Clock::now();
    if (!beat || *beat == known[rank].beat)
      continue;
    known[rank] = {*beat, StringRef(*beat).split(' ').second.str(), answered};
  }
}

void Peers::watchLife() {
  const uint32_t next = (launch.rank + 1) % launch.size;
  char goodbye = 0;
  try {
    messages->receive(next, Topic::Life, &goodbye, sizeof goodbye)->wait();
  } catch (const PeerLost &) {
    lose(next, "");
  } catch (const WireCut &) {
    // The run has ended.
  }
}

void Peers::watchClock() {
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, 50ms, [&] { return stopping || over; })) {
    std::string late;
    for (const Wait &wait : waits)
      if (late.empty() && Clock::now() >= wait.deadline)
        late = wait.what;
    lock.unlock();
    if (!late.empty())
      fail(ofRank(launch.rank,
                  "has waited " + std::to_string(timeout.count()) + " s " + late + "; " + describeOthers()));
    call([](const PeersClient &asked) { asked.tick(); });
    lock.lock();
  }
}

//===- Failing ------------------------------------------------------------===//

void Peers::settle(const std::string &message) {
  {
    std::lock_guard lock(mutex);
    if (over)
      return;
    ended = message;
    over = true;
  }
  changed.notify_all();
  if (messages)
    messages->cut();
  call([&](const PeersClient &asked) { asked.failed(message); });
}

std::string Peers::fail(const std::string &message) {
  {
    std::unique_lock lock(mutex);
    if (proposed.empty())
      proposed = message;
    changed.notify_all();
    changed.wait_for(lock, kLastWord, [&] { return over.load(); });
  }
  // Where the store does not answer, each process ends for itself.
  settle(message);
  std::lock_guard lock(mutex);
  return ended;
}

Error Peers::failure() {
  std::lock_guard lock(mutex);
  return llvm::createStringError(ended);
}

std::string Peers::describe(uint32_t rank) {
  const Known &peer = known[rank];
  std::string text = ofRank(rank, peer.status.empty() ? "is starting" : peer.status);
  const Clock::duration silent = Clock::now() - peer.changed;
  // Of what is not read either, nothing is known.
  if (silent > kSilence && Clock::now() - answered < kSilence)
    text += " (no sign of life for " + seconds(silent) + ")";
  return text;
}

std::string Peers::describeOthers() {
  std::lock_guard lock(mutex);
  std::vector<std::string> others;
  for (uint32_t rank = 0; rank < launch.size; ++rank)
    if (rank != launch.rank)
      others.push_back(describe(rank));
  std::string text = llvm::join(others, ", ");
  if (Clock::now() - answered > kSilence)
    text += " (as of " + seconds(Clock::now() - answered) + " ago: the store at " + storePlace() +
            " does not answer)";
  return text;
}

std::string Peers::deathOf(uint32_t rank) {
  std::lock_guard lock(mutex);
  const std::string &last = known[rank].status;
  return ofRank(rank, "has died") + (last.empty() ? "" : "; its last word: " + ofRank(rank, last));
}

std::string Peers::lose(uint32_t rank, const std::string &context) {
  return fail(deathOf(rank) + (context.empty() ? "" : "; " + context));
}

void Peers::linger() const {
  if (launch.rank == 0 && !launch.agentHoldsStore)
    std::this_thread::sleep_for(3 * kBeat);
}

//===- Exchanging ---------------------------------------------------------===//

Error Peers::exchange(const std::string &what, llvm::function_ref<void()> work) {
  if (over)
    return failure();
  std::list<Wait>::iterator wait;
  {
    std::lock_guard lock(mutex);
    wait = waits.insert(waits.end(), {Clock::now() + timeout, what});
  }
  try {
    work();
  } catch (const PeerLost &lost) {
    lose(lost.rank, ofRank(launch.rank, "waited " + what));
  } catch (const WireCut &) {
    settle("the session was closed");
  } catch (const std::exception &exception) {
    fail(ofRank(launch.rank, "waited " + what + ": " + messageOf(exception)));
  }
  std::lock_guard lock(mutex);
  waits.erase(wait);
  return over ? Error(llvm::createStringError(ended)) : Error::success();
}

void Peers::sendText(uint32_t to, StringRef text) {
  uint64_t bytes = text.size();
  messages->send(to, Topic::Meeting, &bytes, sizeof bytes)->wait();
  if (bytes > 0)
    messages->send(to, Topic::Meeting, text.data(), bytes)->wait();
}

std::string Peers::receiveText(uint32_t from) {
  uint64_t bytes = 0;
  messages->receive(from, Topic::Meeting, &bytes, sizeof bytes)->wait();
  std::string text(bytes, '\0');
  if (bytes > 0)
    messages->receive(from, Topic::Meeting, text.data(), bytes)->wait();
  return text;
}

Expected<std::vector<std::string>> Peers::gather(StringRef text, uint32_t to) {
  std::vector<std::string> texts;
  Error error = exchange("for what all ranks report", [&] {
    if (launch.rank != to)
      return sendText(to, text);
    for (uint32_t rank = 0; rank < launch.size; ++rank)
      texts.push_back(rank == to ? text.str() : receiveText(rank));
  });
  if (error)
    return error;
  return texts;
}

Expected<std::string> Peers::share(StringRef text, uint32_t from) {
  std::string shared = text.str();
  Error error = exchange("for what rank " + std::to_string(from) + " reports", [&] {
    if (launch.rank != from)
      shared = receiveText(from);
    else
      for (uint32_t rank = 0; rank < launch.size; ++rank)
        if (rank != from)
          sendText(rank, text);
  });
  if (error)
    return error;
  return shared;
}

Error Peers::meet() {
  if (auto come = gather("", 0); !come)
    return come.takeError();
  return share("", 0).takeError();
}

/// Of several questions, the one that was answered soonest tells best (Cristian 1989).
Expected<Peers::Clock::duration> Peers::clockOffset() {
  constexpr int questions = 8;
  Clock::duration best = Clock::duration::max(), offset{};
  Error error = exchange("for the clocks of the ranks", [&] {
    for (uint32_t other = 1; launch.rank == 0 && other < launch.size; ++other)
      for (int question = 0; question < questions; ++question) {
        receiveText(other);
        sendText(other, std::to_string(Clock::now().time_since_epoch().count()));
      }
    for (int question = 0; launch.rank != 0 && question < questions; ++question) {
      const Clock::time_point asked = Clock::now();
      sendText(0, "");
      Clock::rep theirs = 0;
      (void)StringRef(receiveText(0)).getAsInteger(10, theirs);
      const Clock::duration taken = Clock::now() - asked;
      if (taken < best) {
        best = taken;
        offset = Clock::duration(theirs) - (asked + taken / 2).time_since_epoch();
      }
    }
  });
  if (error)
    return error;
  return offset;
}

Error Peers::leave() {
  if (Error error = meet())
    return error;
  {
    std::lock_guard lock(mutex);
    leaving = true;
  }
  changed.notify_all();
  beating.join();
  // Nobody reads the store any more once all are here.
  if (Error error = meet())
    return error;
  return exchange("to take leave of the others", [&] {
    char goodbye = 1;
    messages->send((launch.rank + launch.size - 1) % launch.size, Topic::Life, &goodbye, sizeof goodbye)
        ->wait();
    living.join();
  });
}

} // namespace cleave::runtime
