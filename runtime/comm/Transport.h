//===- Transport.h - Messages and key-value store ---------------*- C++ -*-===//
//
// Two services between the processes of a run, as in c10d: point-to-point messages and a key-value store.
// Gloo.cpp implements both. Only it and the GPU groups (DeviceProcessGroup, DeviceLinks, the CUDA plugin) use
// c10d. Both services throw exceptions derived from std::exception.
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

/// How long a failing process waits to hear of an earlier failure elsewhere, which explains more.
inline constexpr std::chrono::seconds kEarlierFailureWait{1};

/// Thrown by waits on a closed transport.
class TransportClosed : public std::runtime_error {
public:
  TransportClosed() : std::runtime_error("the run has ended") {}
};

/// Kind of a message. Messages with the same tag between two ranks arrive in the order in which they were
/// sent.
enum class Tag : uint32_t { Values, Outputs, Collective, Control, Commands, Captured, Trained };

/// A pending send or receive. Its memory must stay valid until `wait` has returned or thrown.
class PendingMessage {
public:
  virtual ~PendingMessage() = default;
  /// Returns when the message has been sent or received. Throws PeerLost or TransportClosed.
  virtual void wait() = 0;
};

/// Point-to-point messages between processes; thread-safe. Rendezvous protocol: data is sent once the
/// receiver has issued its receive, and nothing is buffered.
class Transport {
public:
  virtual ~Transport() = default;
  virtual std::unique_ptr<PendingMessage> send(uint32_t to, Tag tag, const void *data, size_t bytes) = 0;
  /// `bytes` is the size of the buffer: at least the size of the message.
  virtual std::unique_ptr<PendingMessage> receive(uint32_t from, Tag tag, void *data, size_t bytes) = 0;
  /// Closes the transport: every wait, pending or later, throws TransportClosed.
  virtual void close() = 0;
};

/// Key-value store that all processes read and write; thread-safe. A call may block forever.
class Store {
public:
  virtual ~Store() = default;
  virtual void set(const std::string &key, const std::string &value) = 0;
  virtual std::optional<std::string> find(const std::string &key) = 0;
  /// Sets `key` if it is not set, and returns its value. `value` is not empty.
  virtual std::string setOnce(const std::string &key, const std::string &value) = 0;
  /// Sets `key` if its value is `expected`, and returns its value (compare-and-set).
  virtual std::string compareSet(const std::string &key, const std::string &expected,
                                 const std::string &value) = 0;
  /// The values of `keys`, all of which are set.
  virtual std::vector<std::string> values(const std::vector<std::string> &keys) = 0;
  virtual void erase(const std::string &key) = 0;
  /// A view of the keys below `prefix`: the keys that a store opened with the prefix `Launch::prefix/prefix`
  /// has.
  virtual std::unique_ptr<Store> withPrefix(const std::string &prefix) = 0;
};

/// Connects to the store, or creates it where this process is to hold it. Also makes this process ignore
/// SIGPIPE, unless it handles that signal itself.
/// \param connectTimeout  for the first connection; the default is `timeout`, which limits every later call.
std::unique_ptr<Store> openStore(const Launch &launch, std::chrono::milliseconds timeout,
                                 std::optional<std::chrono::milliseconds> connectTimeout = std::nullopt);

/// Connects with all other processes, which call this too. Uses a store connection of its own; the store
/// exists already.
std::unique_ptr<Transport> openTransport(const Launch &launch, std::chrono::milliseconds timeout);

/// Opens a store for the rendezvous of a c10d backend, over a connection of its own; the store exists
/// already. Groups with different names share no keys.
c10::intrusive_ptr<c10d::Store> openGroupStore(const Launch &launch, const std::string &name,
                                               std::chrono::milliseconds timeout);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_TRANSPORT_H
