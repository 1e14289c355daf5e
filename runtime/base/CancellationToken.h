//===- CancellationToken.h - Deadline and failure of a request --*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_CANCELLATIONTOKEN_H
#define CLEAVE_RUNTIME_BASE_CANCELLATIONTOKEN_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>

namespace cleave::runtime {

/// The processes of a run, as far as the failure of one request concerns them.
class FailureAgreement {
public:
  virtual ~FailureAgreement() = default;
  /// Agrees with all processes on the message of a failure. Returns `message`, or that of an earlier failure.
  virtual std::string fail(const std::string &message) = 0;
  /// Agrees with all processes that `rank` does not answer any more, and returns the message of that failure.
  /// `context` says which rank noticed it, and while doing what.
  virtual std::string reportLost(uint32_t rank, const std::string &context) = 0;
  /// What every rank does, for messages.
  virtual std::string describeRanks() = 0;
};

/// Deadline, failure and cancellation of a request, or of other work that several threads share. Everyone who
/// works on the request, or waits for it, holds the same token; the first failure cancels it, with a message,
/// and wakes all who wait. Thread-safe. Wakers are called, made and destroyed under a lock: do neither of
/// this, nor cancel, while holding a lock that a waker takes.
class CancellationToken {
public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    /// Counted from `begin`.
    std::chrono::milliseconds timeout{60'000};
    /// Null where all ranks are threads of this process.
    FailureAgreement *processes = nullptr;
    /// Until `begin`: when the time counts from, at the earliest from the making of the token. May be empty.
    std::function<Clock::time_point()> earliestBegin = nullptr;
    /// What the ranks of this process do, for the message at the deadline. May be empty.
    std::function<std::string()> describeRanks = nullptr;
    /// Called with that message, by the thread that found the deadline passed. May be empty.
    std::function<void(const std::string &)> onTimeout = nullptr;
  };

  explicit CancellationToken(Options options) : options(std::move(options)) {}
  CancellationToken(const CancellationToken &) = delete;
  CancellationToken &operator=(const CancellationToken &) = delete;

  bool isCancelled() const { return cancelled; }
  /// The same, for code that asks often.
  const std::atomic<bool> &flag() const { return cancelled; }
  /// Empty unless cancelled.
  std::string message() const;

  /// Notes that work has begun; from the first call on, the deadline does not change.
  void begin();
  Clock::time_point deadline() const;

  /// Cancels the request; true if nobody has cancelled or finished it before. The message is that on which
  /// all processes agree.
  bool cancel(const std::string &message);
  /// Cancels it since `rank`, which is another process, does not answer; see FailureAgreement::reportLost.
  bool cancelLost(uint32_t rank, const std::string &context);
  /// Cancels it since its deadline has passed.
  void expire();
  /// Cancels it if its deadline has passed.
  void checkDeadline();
  /// From now on nothing cancels it. False if it was cancelled.
  bool finish();

  /// Calls `wake` when the token is cancelled while the object lives. `wake` wakes threads that wait until
  /// `isCancelled`.
  class Waker {
  public:
    Waker(CancellationToken &token, std::function<void()> wake);
    ~Waker();
    Waker(const Waker &) = delete;
    Waker &operator=(const Waker &) = delete;

  private:
    CancellationToken &token;
    std::list<std::function<void()>>::iterator place;
  };

private:
  bool hasEnded() const;
  /// Cancels it with a message on which all processes have agreed.
  bool commit(std::string agreed);

  const Options options;
  const Clock::time_point made = Clock::now();
  std::atomic<bool> cancelled{false};
  mutable std::mutex mutex;
  Clock::time_point begun{};
  bool isFinished = false;
  std::string failure;
  /// Held while wakers are called.
  std::mutex wakersMutex;
  std::list<std::function<void()>> wakers;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_CANCELLATIONTOKEN_H
