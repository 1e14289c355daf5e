//===- Transport.h - What processes exchange by -----------------------*- C++ -*-===//
//
// Two ways between the processes of a run, as c10d has them: messages from one to another, and a store of
// words that all read. What they throw is a std::exception. Gloo.cpp, the one file that knows c10d, makes
// both.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_TRANSPORT_H
#define CLEAVE_RUNTIME_COMM_TRANSPORT_H

#include "runtime/base/Launch.h"
#include <c10/util/intrusive_ptr.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace c10d {
class Store;
}

namespace cleave::runtime {

/// Thrown when a process does not answer any more.
class PeerLost : public std::runtime_error {
public:
  explicit PeerLost(uint32_t rank, const std::string &why) : std::runtime_error(why), rank(rank) {}
  const uint32_t rank;
};

/// How long who fails waits to hear whether another process has failed before, which tells more.
inline constexpr std::chrono::seconds kLastWord{1};

/// Thrown by what waits when the wire is cut.
class TransportClosed : public std::runtime_error {
public:
  TransportClosed() : std::runtime_error("the run has ended") {}
};

/// What messages are about. Those of one tag arrive in the order in which they were sent.
enum class Tag : uint32_t { Values, Outputs, Group, Meeting, Commands };

/// A message under way. Its memory must stay until `wait` has returned or thrown.
class Message {
public:
  virtual ~Message() = default;
  /// Returns when it has been taken or has come. Throws PeerLost or TransportClosed.
  virtual void wait() = 0;
};

/// Messages between processes; of any thread. A message goes once its receiver has asked for it: nothing is
/// buffered.
class Transport {
public:
  virtual ~Transport() = default;
  virtual std::unique_ptr<Message> send(uint32_t to, Tag tag, const void *data, size_t bytes) = 0;
  /// `bytes` are at least those that are sent.
  virtual std::unique_ptr<Message> receive(uint32_t from, Tag tag, void *data, size_t bytes) = 0;
  /// Ends every wait, now and later.
  virtual void cut() = 0;
};

/// Words by key, which all processes read and write; of any thread. It may take for ever to answer.
class Store {
public:
  virtual ~Store() = default;
  virtual void set(const std::string &key, const std::string &value) = 0;
  virtual std::optional<std::string> find(const std::string &key) = 0;
  /// Sets `key` where it is not yet, and gives what it is. `value` is not empty.
  virtual std::string setOnce(const std::string &key, const std::string &value) = 0;
  /// Sets `key` where it is `expected`, and gives what it is.
  virtual std::string replace(const std::string &key, const std::string &expected,
                              const std::string &value) = 0;
  /// The values of keys that are all there.
  virtual std::vector<std::string> values(const std::vector<std::string> &keys) = 0;
  virtual void erase(const std::string &key) = 0;
  /// The keys below `prefix`, as `Launch::prefix` with that and a `/` before it has them.
  virtual std::unique_ptr<Store> below(const std::string &prefix) = 0;
};

/// Reaches the store, or holds it where that is this process' part. From then on this process outlives
/// writing to a connection whose other end is gone (SIGPIPE), unless it handles that in a way of its own.
std::unique_ptr<Store> openStore(const Launch &launch, std::chrono::milliseconds timeout,
                                 std::optional<std::chrono::milliseconds> connecting = std::nullopt);

/// Connects with all others, who do the same, by a connection of its own with the store, which is there.
std::unique_ptr<Transport> openTransport(const Launch &launch, std::chrono::milliseconds timeout);

/// By a connection of its own with the store, which is there: what c10d connects devices by. Groups of
/// another name have nothing of each other's.
c10::intrusive_ptr<c10d::Store> openGroupStore(const Launch &launch, const std::string &name,
                                               std::chrono::milliseconds timeout);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_TRANSPORT_H
