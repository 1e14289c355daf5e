//===- Membership.cpp - The processes of a run ----------------------------===//
#include "runtime/rendezvous/Membership.h"
#include "codegen/plan/text/Printable.h"
#include "runtime/base/Exceptions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <limits>
#include <pthread.h>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using namespace std::chrono_literals;

/// Period of status writes.
static constexpr auto kBeat = 200ms;
/// Silence after which messages mention it.
static constexpr auto kSilence = 1500ms;
static constexpr char kFailed[] = "failed";
/// Longest failure message, in bytes.
static constexpr size_t kLongestMessage = 16 << 10;
/// Long texts are sent in pieces, so that no more memory is allocated than has arrived.
static constexpr size_t kPiece = 1 << 20;

static std::string ofRank(uint32_t rank, StringRef text) {
  return ("rank " + llvm::Twine(rank) + " " + text).str();
}

static std::string seconds(Membership::Clock::duration duration) {
  return llvm::formatv("{0:f1} s", std::chrono::duration<double>(duration).count());
}

Membership::Membership(const Launch &launch, PeerLimits limits)
    : launch(launch), limits(limits), known(launch.size) {}

//===- Watching -----------------------------------------------------------===//

void Membership::start() {
  lastStoreRead = Clock::now();
  for (KnownPeer &peer : known)
    peer.lastBeat = lastStoreRead;
  // Thread names are for debuggers, and tests.
  auto begin = [this](const char *name, void (Membership::*work)()) {
    return std::thread([=, this] {
      pthread_setname_np(pthread_self(), name);
      (this->*work)();
    });
  };
  {
    std::lock_guard lock(mutex);
    beating = begin("beat", &Membership::beat);
    isBeating = true;
  }
  living = begin("life", &Membership::watchLife);
  ticking = begin("clock", &Membership::watchClock);
}

void Membership::Release::operator()(Membership *membership) const {
  if (membership->over)
    membership->linger();
  if (membership->stop())
    delete membership;
}

bool Membership::awaitLastBeat() {
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, kEarlierFailureWait, [&] { return !isBeating; });
}

bool Membership::stop() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  endWaits();
  for (std::thread *thread : {&living, &ticking})
    if (thread->joinable())
      thread->join();
  const bool isLast = awaitLastBeat();
  if (beating.joinable())
    isLast ? beating.join() : beating.detach();
  return isLast;
}

void Membership::setClient(MembershipClient given) {
  std::lock_guard lock(mutex);
  client = std::make_shared<const MembershipClient>(std::move(given));
}

void Membership::clearClient() {
  std::unique_lock lock(mutex);
  client = nullptr;
  changed.wait(lock, [&] { return calls == 0; });
}

void Membership::call(llvm::function_ref<void(const MembershipClient &)> ask) {
  std::unique_lock lock(mutex);
  const std::shared_ptr<const MembershipClient> asked = client;
  if (!asked)
    return;
  ++calls;
  lock.unlock();
  auto done = llvm::make_scope_exit([&] {
    lock.lock();
    --calls;
    changed.notify_all();
  });
  ask(*asked);
}

void Membership::beat() {
  keepBeating();
  std::lock_guard lock(mutex);
  isBeating = false;
  changed.notify_all();
}

void Membership::keepBeating() {
  for (uint64_t count = 1;; ++count) {
    bool answers = true;
    try {
      beatOnce(count);
    } catch (const std::exception &exception) {
      answers = isOutOfResources(exception);
      if (answers)
        commitFailure("rank " + std::to_string(launch.rank) + ": " + messageOf(exception));
    }
    std::unique_lock lock(mutex);
    if (!answers && !leaving && !stopping) {
      lock.unlock();
      return loseStore();
    }
    changed.wait_for(lock, kBeat, [&] { return stopping || leaving || over || !proposed.empty(); });
    if (stopping || leaving || over) {
      lock.unlock();
      return publishFailure();
    }
  }
}

void Membership::publishFailure() {
  bool mayBeFollowed;
  {
    std::lock_guard lock(mutex);
    mayBeFollowed = leaving || launch.agentHoldsStore;
  }
  try {
    // Writes a failure that the store was too slow to receive before.
    propose();
    // The agent's store may outlive this run, and serve another one.
    if (launch.rank == 0 && mayBeFollowed)
      rootStore->erase(kRun);
  } catch (const std::exception &) {
  }
}

void Membership::loseStore() {
  if (launch.agentHoldsStore)
    return commitFailure("lost the store at " + storeAddress() + ", which torchrun's agent holds; " +
                         describeOthers());
  std::string message;
  {
    // The liveness connection may tell how rank 0 ended.
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kEarlierFailureWait, [&] { return over || stopping || !proposed.empty(); });
    message = proposed;
  }
  commitFailure(message.empty()
                    ? withLastStatus("lost the store at " + storeAddress() + ", which rank 0 held", 0)
                    : message);
}

void Membership::beatOnce(uint64_t count) {
  std::string status;
  {
    std::lock_guard lock(mutex);
    status = messages ? kLoadingStatus : "is joining the others";
  }
  call([&](const MembershipClient &asked) { status = asked.status(); });
  store->set(beatOf(launch.rank), std::to_string(count) + " " + status);
  if (propose())
    return;
  if (auto failure = store->find(kFailed))
    return commitFailure(plan::printable(*failure, kLongestMessage));
  readBeats();
}

bool Membership::propose() {
  std::string proposal;
  {
    std::lock_guard lock(mutex);
    if (proposed.empty() || isProposed)
      return false;
    proposal = proposed;
    isProposed = true;
  }
  commitFailure(plan::printable(store->setOnce(kFailed, proposal), kLongestMessage));
  return true;
}

void Membership::readBeats() {
  std::vector<std::string> keys;
  for (uint32_t rank = 0; rank < launch.size; ++rank)
    keys.push_back(beatOf(rank));
  if (haveAllCome) {
    for (auto [rank, beat] : llvm::enumerate(store->values(keys)))
      updatePeer(uint32_t(rank), beat);
    return;
  }
  for (auto [rank, key] : llvm::enumerate(keys))
    if (auto beat = store->find(key))
      updatePeer(uint32_t(rank), *beat);
}

void Membership::updatePeer(uint32_t rank, const std::string &beat) {
  std::lock_guard lock(mutex);
  lastStoreRead = Clock::now();
  known[rank].update(beat, lastStoreRead);
}

void Membership::watchLife() {
  if (std::optional<LivenessMonitor::Loss> loss = liveness->watch())
    fail(loss->reason.empty() ? deathOf(loss->rank) : loss->reason);
}

std::string Membership::timeoutText() const {
  for (const PeerWait &wait : waits)
    if (std::string text = wait.timeoutText(Clock::now(), known, launch.rank, limits); !text.empty())
      return text;
  return "";
}

void Membership::watchClock() {
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, 50ms, [&] { return stopping || over; })) {
    const std::string late = timeoutText();
    lock.unlock();
    if (!late.empty())
      fail(ofRank(launch.rank, "has waited " + late + "; " + describeOthers()));
    call([](const MembershipClient &asked) { asked.tick(); });
    lock.lock();
  }
}

//===- Failing ------------------------------------------------------------===//

void Membership::commitFailure(const std::string &message) {
  {
    std::lock_guard lock(mutex);
    if (over)
      return;
    ended = message;
    over = true;
    // Before this process can end: a process that ends without a reason is taken to have died.
    if (liveness)
      liveness->sayFailure(message);
  }
  changed.notify_all();
  endWaits();
  call([&](const MembershipClient &asked) { asked.onFailure(message); });
}

void Membership::endWaits() {
  std::lock_guard lock(mutex);
  if (messages)
    messages->close();
  if (liveness)
    liveness->stop();
}

std::string Membership::fail(const std::string &message) {
  std::string first;
  {
    std::unique_lock lock(mutex);
    if (proposed.empty())
      proposed = message;
    changed.notify_all();
    changed.wait_for(lock, kEarlierFailureWait, [&] { return over.load(); });
    first = proposed;
  }
  // If the store does not answer, each process ends with its own message.
  commitFailure(first);
  std::lock_guard lock(mutex);
  return ended;
}

Error Membership::failure() {
  std::lock_guard lock(mutex);
  return llvm::createStringError(ended.empty() ? "the session was closed" : ended);
}

std::string Membership::describe(uint32_t rank) {
  const KnownPeer &peer = known[rank];
  std::string text = ofRank(rank, peer.status.empty() ? "is starting" : peer.status);
  const Clock::duration silent = Clock::now() - peer.lastBeat;
  // If this process cannot read the store either, nothing is known of the other.
  if (silent > kSilence && Clock::now() - lastStoreRead < kSilence)
    text += " (no sign of life for " + seconds(silent) + ")";
  return text;
}

std::string Membership::describeOthers() {
  std::lock_guard lock(mutex);
  std::vector<std::string> others;
  for (uint32_t rank = 0; rank < launch.size; ++rank)
    if (rank != launch.rank)
      others.push_back(describe(rank));
  std::string text = llvm::join(others, ", ");
  // A process that holds the store, and has not asked it, was itself stopped.
  if (Clock::now() - lastStoreRead > kSilence && isBeating && !leaving && !holdsStore())
    text += " (as of " + seconds(Clock::now() - lastStoreRead) + " ago: the store at " + storeAddress() +
            " does not answer)";
  return text;
}

std::string Membership::deathOf(uint32_t rank) { return withLastStatus(ofRank(rank, "has died"), rank); }

std::string Membership::withLastStatus(const std::string &message, uint32_t rank) {
  std::lock_guard lock(mutex);
  const std::string &last = known[rank].status;
  return message + (last.empty() ? "" : "; last known status: " + ofRank(rank, last));
}

std::string Membership::describeRanks() {
  std::string own;
  call([&](const MembershipClient &asked) { own = asked.status(); });
  return ofRank(launch.rank, own) + ", " + describeOthers();
}

std::string Membership::reportLost(uint32_t rank, const std::string &context) {
  {
    // A lost connection alone does not tell whether its process has died, or has failed and reported why.
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kEarlierFailureWait, [&] { return over || !proposed.empty(); });
  }
  return fail(withLastStatus("lost the connection with rank " + std::to_string(rank), rank) + "; " + context);
}

void Membership::linger() {
  if (holdsStore())
    std::this_thread::sleep_for(3 * kBeat);
  else if (launch.rank == 0)
    awaitLastBeat();
}

//===- Exchanging ---------------------------------------------------------===//

Error Membership::waitFor(const std::string &what, llvm::function_ref<void()> work) {
  if (over)
    return failure();
  std::list<PeerWait>::iterator wait;
  {
    std::lock_guard lock(mutex);
    wait = waits.insert(waits.end(), {Clock::now(), what});
  }
  try {
    work();
  } catch (const PeerLost &lost) {
    reportLost(lost.rank, ofRank(launch.rank, "waited " + what));
  } catch (const TransportClosed &) {
    commitFailure("the session was closed");
  } catch (const std::exception &exception) {
    fail(ofRank(launch.rank, "waited " + what + ": " + messageOf(exception)));
  }
  std::lock_guard lock(mutex);
  waits.erase(wait);
  return over ? Error(llvm::createStringError(ended)) : Error::success();
}

void Membership::sendText(uint32_t to, StringRef text) {
  uint64_t bytes = text.size();
  messages->send(to, Tag::Control, &bytes, sizeof bytes)->wait();
  for (; !text.empty(); text = text.drop_front(std::min(text.size(), kPiece)))
    messages->send(to, Tag::Control, text.data(), std::min(text.size(), kPiece))->wait();
}

std::string Membership::receiveText(uint32_t from, size_t most) {
  uint64_t bytes = 0;
  messages->receive(from, Tag::Control, &bytes, sizeof bytes)->wait();
  if (bytes > most)
    throw std::runtime_error(llvm::formatv(
        "a message of rank {0}: found a text of {1} bytes, expected at most {2}", from, bytes, most));
  std::string text;
  while (text.size() < bytes) {
    const size_t begin = text.size();
    text.resize(std::min<size_t>(bytes, begin + kPiece));
    messages->receive(from, Tag::Control, text.data() + begin, text.size() - begin)->wait();
  }
  return text;
}

Expected<std::vector<std::string>> Membership::gather(StringRef text, uint32_t root, size_t most) {
  std::vector<std::string> texts;
  Error error = waitFor("for what all ranks report", [&] {
    if (launch.rank != root)
      return sendText(root, text);
    for (uint32_t rank = 0; rank < launch.size; ++rank)
      texts.push_back(rank == root ? text.str() : receiveText(rank, most));
  });
  if (error)
    return error;
  return texts;
}

Expected<std::string> Membership::broadcast(StringRef text, uint32_t root) {
  std::string shared = text.str();
  Error error = waitFor("for what rank " + std::to_string(root) + " reports", [&] {
    if (launch.rank != root)
      shared = receiveText(root);
    else
      for (uint32_t rank = 0; rank < launch.size; ++rank)
        if (rank != root)
          sendText(rank, text);
  });
  if (error)
    return error;
  return shared;
}

Error Membership::barrier() {
  if (auto come = gather("", 0); !come)
    return come.takeError();
  return broadcast("", 0).takeError();
}

/// The clock of rank 0 was read between a question and its answer. Of many exchanges, the latest question and
/// the earliest answer bound the offset best (Marzullo and Owicki 1983).
Expected<Membership::Clock::duration> Membership::clockOffset() {
  constexpr int questions = 64;
  Clock::duration least = Clock::duration::min(), most = Clock::duration::max();
  Error error = waitFor("for the clocks of the ranks", [&] {
    for (uint32_t other = 1; launch.rank == 0 && other < launch.size; ++other)
      for (int question = 0; question < questions; ++question) {
        receiveText(other);
        sendText(other, std::to_string(Clock::now().time_since_epoch().count()));
      }
    for (int question = 0; launch.rank != 0 && question < questions; ++question) {
      const Clock::time_point asked = Clock::now();
      sendText(0, "");
      constexpr Clock::rep kLatest = std::numeric_limits<Clock::rep>::max() / 4;
      Clock::rep theirs = 0;
      if (StringRef(receiveText(0)).getAsInteger(10, theirs) || theirs < 0 || theirs > kLatest)
        throw std::runtime_error("a message of rank 0: found no time");
      least = std::max(least, Clock::duration(theirs) - Clock::now().time_since_epoch());
      most = std::min(most, Clock::duration(theirs) - asked.time_since_epoch());
    }
  });
  if (error)
    return error;
  return launch.rank == 0 ? Clock::duration::zero() : least + (most - least) / 2;
}

Error Membership::leave() {
  if (Error error = barrier())
    return error;
  {
    std::lock_guard lock(mutex);
    leaving = true;
  }
  changed.notify_all();
  awaitLastBeat();
  // After this barrier no process reads the store any more.
  if (Error error = barrier())
    return error;
  // Gloo resets the connections that it closes, with data under way: so no process leaves before all are
  // here.
  return waitFor("for the others to take leave", [&] {
    if (launch.rank != 0)
      liveness->sayGoodbye();
    living.join();
    if (launch.rank == 0)
      liveness->sayGoodbye();
  });
}

} // namespace cleave::runtime
