//===- Membership.h - The processes of a run --------------------*- C++ -*-===//
//
// Each process runs one rank. A failure anywhere ends all processes with one message: the first that was
// written to the store. Three threads see to that, from the rendezvous on:
//
//   beat    writes this process's status to the store, reads those of others and whether the run failed
//   life    watches the liveness connections, which tell when a process has died
//   clock   checks deadlines, also while the store does not answer
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_RENDEZVOUS_MEMBERSHIP_H
#define CLEAVE_RUNTIME_RENDEZVOUS_MEMBERSHIP_H

#include "runtime/base/CancellationToken.h"
#include "runtime/comm/Transport.h"
#include "runtime/rendezvous/LivenessMonitor.h"
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

/// Callbacks into the session, called from Membership's threads.
struct MembershipClient {
  /// What this process does: `(stage 1) waits for the values of stage 0`.
  std::function<std::string()> status;
  /// Called when the run has failed, here or elsewhere.
  std::function<void(const std::string &)> onFailure;
  /// Called periodically.
  std::function<void()> tick;
};

class Membership final : public FailureAgreement {
  /// Store key under which rank 0 announces the run.
  static constexpr char kRun[] = "run";

public:
  using Clock = PeerClock;

  struct Release;
  using Owner = std::unique_ptr<Membership, Release>;
  /// Joins the run: meets the other processes at the store and connects with them. Fails in all processes
  /// where one does not come in time, or has another `value` (the checksum of a plan); `what` names it in
  /// messages (`plan`). Fails in this process alone where the run already has its rank, or has another number
  /// of processes. `value` has no spaces.
  static llvm::Expected<Owner> join(const Launch &launch, const std::string &what, const std::string &value,
                                    PeerLimits limits);

  uint32_t rank() const { return launch.rank; }
  uint32_t size() const { return launch.size; }
  /// Rank and store of this process.
  const Launch &launchInfo() const { return launch; }
  /// True once the run has ended. For waits that Membership cannot end.
  bool isOver() const { return over; }
  Transport &transport() { return *messages; }

  void setClient(MembershipClient given);
  /// Drops the client; returns when no callback is running.
  void clearClient();

  /// Ends the run in all processes. Returns the message with which all end: the first, if several processes
  /// fail.
  std::string fail(const std::string &message) override;
  /// First waits briefly, since a liveness connection may tell why the process does not answer.
  std::string reportLost(uint32_t rank, const std::string &context) override;
  std::string describeRanks() override;
  /// What the other processes do, as far as known: `rank 1 (stage 0) is computing`.
  std::string describeOthers();

  /// Barrier of all processes.
  llvm::Error barrier();
  /// Runs `work`, which waits for other processes and has a deadline. Its failure is one of the run.
  /// \param what  what is waited for: `for rank 1 to take a request`.
  llvm::Error waitFor(const std::string &what, llvm::function_ref<void()> work);
  /// The message with which the run has ended.
  llvm::Error failure();
  /// Gathers `text` of all processes, by rank, at process `root`; empty elsewhere.
  /// \param most  maximum of bytes of one text.
  llvm::Expected<std::vector<std::string>> gather(llvm::StringRef text, uint32_t root,
                                                  size_t most = kMaxText);
  /// Broadcasts `text` of process `root`.
  llvm::Expected<std::string> broadcast(llvm::StringRef text, uint32_t root);
  static constexpr size_t kMaxText = 16 << 20;
  /// Clock of rank 0 minus the clock of this process.
  llvm::Expected<Clock::duration> clockOffset();
  /// Leaves the run in good order. A collective call.
  llvm::Error leave();
  /// Rank 0, after a failure: keeps the store alive until the others have read the failure or, where
  /// torchrun's agent holds the store, waits until the run is removed from it.
  void linger();

private:
  /// Store key of a process's status.
  static std::string beatOf(uint32_t rank) { return "beat/" + std::to_string(rank); }
  Membership(const Launch &launch, PeerLimits limits);
  ~Membership() override = default;
  /// Result of joining.
  struct Attempt;
  /// joinRun, with exceptions as text; empty on success.
  std::string attempt(const std::string &what, const std::string &value);
  /// Finds the run, starts the threads, waits for all, compares values, connects.
  llvm::Error joinRun(const std::string &what, const std::string &value);
  llvm::Error openStoreAndEnter(Clock::time_point deadline);
  llvm::Error enter(Clock::time_point deadline);
  /// Rank 0.
  llvm::Error announceRun();
  /// Other ranks.
  llvm::Error claimRank(llvm::StringRef run, Clock::time_point deadline);
  llvm::Error rankTakenError(llvm::StringRef owner) const;
  /// Restricts `store` to the keys of the run, and keeps its liveness connections.
  void enterRun(const std::string &runId, std::unique_ptr<LivenessMonitor> monitor);
  llvm::Error notStartedError(const std::string &who) const;
  llvm::Error awaitAll(Clock::time_point deadline);
  llvm::Error compare(const std::string &what);
  llvm::Error connect(Clock::time_point deadline);
  /// True if this process holds the store: rank 0, unless torchrun's agent does.
  bool holdsStore() const { return launch.rank == 0 && !launch.agentHoldsStore; }
  std::string storeAddress() const;
  std::string noStoreReason() const;
  std::string joinTimeoutReason() const;
  void start();
  /// False if the store does not answer, so that a thread still waits for it.
  bool stop();
  /// Waits until no thread uses the store; false if one still does after kEarlierFailureWait.
  bool awaitLastBeat();
  void beat();
  /// Writes statuses until the run ends.
  void keepBeating();
  /// Writes a failure that the store does not have yet, and removes the run from the store.
  void publishFailure();
  void loseStore();
  void beatOnce(uint64_t count);
  void readBeats();
  void updatePeer(uint32_t rank, const std::string &beat);
  /// Writes this process's failure to the store; false if there is none to write.
  bool propose();
  void watchLife();
  void watchClock();
  /// A wait that has taken too long, `30 s for what all ranks report`; empty if there is none.
  std::string timeoutText() const;
  /// Calls `ask` with the client, if there is one, without holding a lock.
  void call(llvm::function_ref<void(const MembershipClient &)> ask);
  std::string describe(uint32_t rank);
  /// `rank 1 has died; last known status: …`.
  std::string deathOf(uint32_t rank);
  std::string withLastStatus(const std::string &message, uint32_t rank);
  /// Ends the run with `message`, unless it has ended already.
  void commitFailure(const std::string &message);
  /// Ends every wait for other processes.
  void endWaits();
  void sendText(uint32_t to, llvm::StringRef text);
  std::string receiveText(uint32_t from, size_t most = kMaxText);

  /// Once this process has joined, its prefix includes the run.
  Launch launch;
  const PeerLimits limits;
  /// rootStore: the whole store, where runs are announced. store: its keys of this run.
  std::unique_ptr<Store> rootStore, store;
  std::unique_ptr<LivenessMonitor> liveness;

  std::mutex mutex;
  /// Null until all processes have come.
  std::unique_ptr<Transport> messages;
  std::condition_variable changed;
  std::shared_ptr<const MembershipClient> client;
  uint32_t calls = 0;
  std::vector<KnownPeer> known;
  std::list<PeerWait> waits;
  /// Failure of this process, to be written to the store; failure with which the run ended.
  std::string proposed, ended;
  bool isProposed = false;
  /// When the store last returned a status of another process.
  Clock::time_point lastStoreRead;
  std::atomic<bool> over{false}, hasStore{false}, haveAllCome{false};
  bool stopping = false, leaving = false, isBeating = false;
  std::thread beating, living, ticking;
};

/// Leaves without goodbye: unless `leave` was called, the other processes fail. If the store does not answer,
/// the thread that waits for it is detached, and the Membership is leaked, since the thread still uses it.
struct Membership::Release {
  void operator()(Membership *membership) const;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RENDEZVOUS_MEMBERSHIP_H
