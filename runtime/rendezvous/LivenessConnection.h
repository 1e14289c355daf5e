//===- LivenessConnection.h - Seeing at once that a process is gone -------*- C++ -*-===//
//
// A connection of every process with that of rank 0, on which nothing is said but who it is and, at the end,
// goodbye, or why the run has failed:
//
//   name | '!'          of a run that is over
//   name | '?' text \n  of one that has failed
//
// When a process ends, however it does, its system closes the connection, and the other end sees that: rank 0
// the end of any other, the others that of rank 0. Who ends without a word has died. The connection is there
// before the processes have connected for messages, and does not need the store.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_RENDEZVOUS_LIVENESSCONNECTION_H
#define CLEAVE_RUNTIME_RENDEZVOUS_LIVENESSCONNECTION_H

#include "llvm/ADT/StringRef.h"
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace cleave::runtime {

/// This process' ends. What they throw is a std::exception.
class LivenessConnection {
public:
  using Clock = std::chrono::steady_clock;

  /// A process that is gone, or is going to be.
  struct Loss {
    uint32_t rank;
    /// By what the run has failed there, printable; empty where it has died.
    std::string word;
    bool operator==(const Loss &) const = default;
  };

  /// Rank 0 holds the ends of all others of `size` at `address`, which is one of this machine.
  static std::unique_ptr<LivenessConnection> hold(const std::string &address, uint32_t size);
  /// Connects with rank 0. Throws where that is not there by `deadline`.
  /// \param place  what rank 0's `place` gives.
  static std::unique_ptr<LivenessConnection> reach(const std::string &place, uint32_t rank, Clock::time_point deadline);
  /// Whether there is nobody at a `place` any more, as the system there says; false where it says nothing by
  /// `deadline`.
  static bool isGone(const std::string &place, Clock::time_point deadline);
  ~LivenessConnection();
  LivenessConnection(const LivenessConnection &) = delete;

  /// Where rank 0 is reached, and by which word others are told from strangers.
  std::string place() const;
  /// That word, which no other run has.
  const std::string &run() const { return word; }
  /// How many processes are connected with this one, by `watch`.
  uint32_t connected() const;

  /// Waits until a process has failed, or is gone without goodbye; gives nothing when all have said that, and
  /// after `stop`.
  std::optional<Loss> watch();
  /// That this process is gone, then, is none of the others' business.
  void sayGoodbye();
  /// That the run has failed here, by this.
  void sayFailure(const std::string &message);
  /// Ends `watch`, now and later.
  void stop();

private:
  struct Connection {
    /// -1 once it is closed.
    int socket;
    /// How long a name the other end gives first; 0 where it is known.
    size_t nameLength;
    std::string heard = {};
    std::optional<uint32_t> rank = {};
    bool hasLeft = false;
    /// What it has failed by; whether it has said all of that.
    std::string word = {};
    bool hasFailed = false;
  };

  explicit LivenessConnection(std::string word);
  void accept();
  /// Where there are too many, closes the oldest connection of those that have not said who they are: they
  /// are to use up no descriptors.
  void dropStranger();
  bool haveAllLeft() const;
  /// Reads what has come; false where the other end is closed or a stranger.
  bool hear(Connection &connection) const;
  /// False for a name that is none, or that another process has.
  bool takeName(Connection &connection, llvm::StringRef name) const;
  /// Reads the connections; the process that is lost, if there is one.
  std::optional<Loss> hearAll();
  void awaitSomething();

  /// What those of this run say first.
  const std::string word;
  /// Of rank 0: how many ranks there are.
  uint32_t size = 0;
  /// The system has given no socket for somebody who connects: there is one again after a while.
  bool isFull = false;
  std::string address;
  int listening = -1, stopped = -1;
  mutable std::mutex mutex;
  std::list<Connection> connections;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RENDEZVOUS_LIVENESSCONNECTION_H
