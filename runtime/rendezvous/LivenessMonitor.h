//===- LivenessMonitor.h - Detects dead processes ---------------*- C++ -*-===//
//
// Each process keeps a TCP connection to rank 0. It carries only the name of the process and, at the end, a
// goodbye or the reason of a failure:
//
//   name | '!'          the process has finished
//   name | '?' text \n  the process has failed
//
// When a process ends, however it does, its system closes the connection, and the other end sees that: rank 0
// sees the end of any other process, the others that of rank 0. A process that ends without a goodbye or a
// reason has died. The connection is made before processes connect for messages, and does not need the store.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_RENDEZVOUS_LIVENESSMONITOR_H
#define CLEAVE_RUNTIME_RENDEZVOUS_LIVENESSMONITOR_H

#include "llvm/ADT/StringRef.h"
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace cleave::runtime {

/// The liveness connections of this process. Throws exceptions derived from std::exception.
class LivenessMonitor {
public:
  using Clock = std::chrono::steady_clock;

  /// A process that has died or failed.
  struct Loss {
    uint32_t rank;
    /// Why the run failed there, printable; empty if the process has died.
    std::string reason;
    bool operator==(const Loss &) const = default;
  };

  /// Rank 0: listens for `size` - 1 processes at `address`, an address of this machine.
  static std::unique_ptr<LivenessMonitor> listen(const std::string &address, uint32_t size);
  /// Connects to rank 0. Throws if it does not answer by `deadline`.
  /// \param endpoint  what `endpoint` of rank 0 returns.
  static std::unique_ptr<LivenessMonitor> connect(const std::string &endpoint, uint32_t rank,
                                                  Clock::time_point deadline);
  /// True if the host at `endpoint` refuses the connection: rank 0 is gone. False if there is no answer by
  /// `deadline`.
  static bool isGone(const std::string &endpoint, Clock::time_point deadline);
  ~LivenessMonitor();
  LivenessMonitor(const LivenessMonitor &) = delete;

  /// Address, port and run id of rank 0. The id tells processes of the run from strangers.
  std::string endpoint() const;
  /// The run id, which is unique.
  const std::string &runId() const { return id; }
  /// Number of connected processes, as `watch` has seen them.
  uint32_t connected() const;

  /// Waits until a process has failed or died. Returns nothing after `stop`, and when all processes have said
  /// goodbye.
  std::optional<Loss> watch();
  /// Tells the other end that this process ends on purpose.
  void sayGoodbye();
  /// Tells the other end that the run has failed here, and why.
  void sayFailure(const std::string &message);
  /// Ends `watch`, pending or later.
  void stop();

private:
  struct Connection {
    /// -1 once it is closed.
    int socket;
    /// Length of the name that the other end sends first; 0 where its rank is known.
    size_t nameLength;
    std::string received = {};
    std::optional<uint32_t> rank = {};
    bool hasLeft = false;
    /// Reason of a failure, and whether it has arrived completely.
    std::string reason = {};
    bool hasFailed = false;
  };

  explicit LivenessMonitor(std::string runId);
  void accept();
  /// If too many connections have sent no name, closes the oldest of them, so that strangers cannot exhaust
  /// file descriptors.
  void dropStranger();
  bool haveAllLeft() const;
  /// Reads what has arrived; false if the other end has closed the connection or is a stranger.
  bool read(Connection &connection) const;
  /// Sets the rank of a connection. False if the name is invalid or another process has it.
  bool takeName(Connection &connection, llvm::StringRef name) const;
  /// Reads all connections. Returns the process that has died or failed, if there is one.
  std::optional<Loss> readAll();
  void waitForEvents();

  /// Run id: prefix of every name.
  const std::string id;
  /// Rank 0 only: number of ranks.
  uint32_t size = 0;
  /// The system had no file descriptor for a new connection; accept is tried again later.
  bool isFull = false;
  std::string address;
  /// The socket that listens, in rank 0, and an eventfd that `stop` writes to.
  int listenSocket = -1, stopEvent = -1;
  mutable std::mutex mutex;
  std::list<Connection> connections;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RENDEZVOUS_LIVENESSMONITOR_H
