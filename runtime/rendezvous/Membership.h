//===- Membership.h - The processes of a run, and how they end together -*- C++ -*-===//
//
// Each process runs one rank. What fails anywhere ends all of them with one message, the first that was told
// to the store. Three threads see to that, from the meeting at the store on:
//
//   beat    writes what this process does to the store, and reads what the others do and whether one failed
//   life    watches the liveness, whose end says that a process is dead
//   clock   looks for deadlines that have passed, also while the store does not answer
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_RENDEZVOUS_MEMBERSHIP_H
#define CLEAVE_RUNTIME_RENDEZVOUS_MEMBERSHIP_H

#include "runtime/comm/Transport.h"
#include "runtime/rendezvous/LivenessConnection.h"
#include "runtime/rendezvous/PeerWaits.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace cleave::runtime {

/// What a session has the processes ask it. Called from threads of theirs.
struct MembershipClient {
  /// What this process does: `(stage 1) waits for the values of stage 0`.
  std::function<std::string()> status;
  /// The run has failed, here or elsewhere.
  std::function<void(const std::string &)> failed;
  /// From time to time.
  std::function<void()> tick;
};

class Membership {
  /// Where rank 0 writes what run there is.
  static constexpr char kRun[] = "run";

public:
  using Clock = PeerClock;

  struct Release;
  using Owner = std::unique_ptr<Membership, Release>;
  /// Meets the other processes at the store and connects with them. Fails where one does not come in time, or
  /// has another `value` (the checksum of a plan) of `what` (`plan`, for messages); all fail then. Where a
  /// run has this process' rank already, or another number of processes, this process alone fails. `value`
  /// has no spaces.
  static llvm::Expected<Owner> join(const Launch &launch, const std::string &what, const std::string &value,
                                    PeerLimits limits);

  uint32_t rank() const { return launch.rank; }
  uint32_t size() const { return launch.size; }
  /// Where the processes meet.
  const Launch &place() const { return launch; }
  /// Whether the run has ended, for what waits in ways of its own.
  bool isOver() const { return over; }
  Transport &transport() { return *messages; }

  void serve(MembershipClient served);
  /// Asks the client no more, and returns when no call is under way.
  void stopServing();

  /// Ends the run in all processes, and gives the message that all of them end with: of those that several
  /// tell, the first.
  std::string fail(const std::string &message);
  /// The same for a process that does not answer, where the liveness says no more of it; `context` says what
  /// was wanted of it.
  std::string lose(uint32_t rank, const std::string &context);
  /// What the others do, as far as is known: `rank 1 (stage 0) is computing`.
  std::string describeOthers();

  /// Returns when all processes have come here.
  llvm::Error meet();
  /// Does `work`, which waits for others and ends in time; a failure of it is that of the run.
  /// \param what  that is waited for: `for rank 1 to take a request`.
  llvm::Error waitFor(const std::string &what, llvm::function_ref<void()> work);
  /// By which the run has ended.
  llvm::Error failure();
  /// What every process gives, by rank, at process `to`; elsewhere nothing.
  /// \param most  bytes that one may give.
  llvm::Expected<std::vector<std::string>> gather(llvm::StringRef text, uint32_t to, size_t most = kMostText);
  /// What process `from` gives, at all of them.
  llvm::Expected<std::string> share(llvm::StringRef text, uint32_t from);
  static constexpr size_t kMostText = 16 << 20;
  /// What to add to a time of this process to have that of process 0.
  llvm::Expected<Clock::duration> clockOffset();
  /// Says goodbye, when all do.
  llvm::Error leave();
  /// After a failure, at rank 0: stays until the others have read what has failed, where it holds the store,
  /// or until an agent's store has no such run.
  void linger();

private:
  /// Where a process writes what it does.
  static std::string beatOf(uint32_t rank) { return "beat/" + std::to_string(rank); }
  Membership(const Launch &launch, PeerLimits limits);
  ~Membership() = default;
  /// What joining is made of.
  struct Attempt;
  std::string attempt(const std::string &what, const std::string &value);
  llvm::Error come(const std::string &what, const std::string &value);
  llvm::Error find(Clock::time_point deadline);
  llvm::Error enter(Clock::time_point deadline);
  llvm::Error begin();
  llvm::Error enterRun(llvm::StringRef run, Clock::time_point deadline);
  llvm::Error isTaken(llvm::StringRef owner) const;
  /// From now on the store has what is of this run alone.
  void keepTo(const std::string &run, std::unique_ptr<LivenessConnection> line);
  llvm::Error notStarted(const std::string &who) const;
  llvm::Error awaitAll(Clock::time_point deadline);
  llvm::Error compare(const std::string &what);
  llvm::Error connect(Clock::time_point deadline);
  /// Rank 0 holds the store, and no launcher's agent.
  bool holdsStore() const { return launch.rank == 0 && !launch.agentHoldsStore; }
  std::string storePlace() const;
  std::string noStore() const;
  /// What joining has been given up at.
  std::string lateness() const;
  void start();
  /// False where the store does not answer, so that a thread still asks it.
  bool stop();
  /// Waits until no thread asks the store, or it does not answer in time.
  bool awaitLastBeat();
  void beat();
  /// Until the run ends.
  void keepBeating();
  /// What remains to be told when it does.
  void tellLast();
  void loseStore();
  void beatOnce(uint64_t count);
  void noteBeats();
  void note(uint32_t rank, const std::string &beat);
  /// Tells the store why this process has failed; true where it has.
  bool propose();
  void watchLife();
  void watchClock();
  /// `30 s for what all ranks report`: a wait that has been too long; empty where none has.
  std::string overdue() const;
  /// `ask` of the client, if there is one, without a lock.
  void call(llvm::function_ref<void(const MembershipClient &)> ask);
  std::string describe(uint32_t rank);
  /// `rank 1 has died; its last word: …`.
  std::string deathOf(uint32_t rank);
  std::string withLastWord(const std::string &message, uint32_t rank);
  /// Takes `message` for the end of the run.
  void commitFailure(const std::string &message);
  /// Ends what waits for others.
  void cut();
  void sendText(uint32_t to, llvm::StringRef text);
  std::string receiveText(uint32_t from, size_t most = kMostText);

  /// Its prefix is that of the run once this process has entered it.
  Launch launch;
  const PeerLimits limits;
  /// Where runs are found, and what is of this one.
  std::unique_ptr<Store> meeting, store;
  std::unique_ptr<LivenessConnection> liveness;

  std::mutex mutex;
  /// Null until all have come.
  std::unique_ptr<Transport> messages;
  std::condition_variable changed;
  std::shared_ptr<const MembershipClient> client;
  uint32_t calls = 0;
  std::vector<KnownPeer> known;
  std::list<PeerWait> waits;
  /// Told here, and not yet to the store; how the run has ended.
  std::string proposed, ended;
  bool isProposed = false;
  Clock::time_point answered;
  std::atomic<bool> over{false}, hasStore{false}, haveAllCome{false};
  bool stopping = false, leaving = false, isBeating = false;
  std::thread beating, living, ticking;
};

/// Leaves without a word: where `leave` was not called, the others fail. A store that does not answer is
/// not waited for: the thread that asks it stays then, and what it uses.
struct Membership::Release {
  void operator()(Membership *membership) const;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RENDEZVOUS_MEMBERSHIP_H
