//===- P2PChannel.h - Values sent between processes -------------*- C++ -*-===//
//
// Serialized values travel as one message if they are small, otherwise as one message for the header and one
// for each block:
//
//   | header bytes u64 | block bytes u64 | header … | blocks … |      up to 64 KiB together
//
// Sender and receiver are double-buffered: values may still be under way while the sender's stage computes,
// and the next values are received while the receiver's stage computes on the previous ones. So communication
// overlaps computation, at the cost of holding two more sets of values.
//
// If the channel has a TensorLink, tensors of its device go through it. They follow after the first message
// has been received, so that neither GPU blocks while it waits for the other.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_EXCHANGE_P2PCHANNEL_H
#define CLEAVE_RUNTIME_EXCHANGE_P2PCHANNEL_H

#include "runtime/comm/TensorLink.h"
#include "runtime/comm/Transport.h"
#include "runtime/device/MemoryAccount.h"
#include "runtime/exchange/SerializedValues.h"
#include <ATen/core/ivalue.h>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace cleave::runtime {

/// Sends values to another process. Used by one thread at a time.
class Sender {
public:
  /// \param link  null where tensors go through CPU memory. Both ends have a link, or neither.
  Sender(Transport &transport, uint32_t to, Tag tag, TensorLink *link = nullptr)
      : transport(transport), to(to), tag(tag), link(link) {}

  /// Sends `values`, and clears it, after the values sent before have been received. Throws what a message
  /// throws.
  void send(std::vector<c10::IValue> &values);
  /// Returns when all values have been received.
  void flush();

private:
  Transport &transport;
  const uint32_t to;
  const Tag tag;
  TensorLink *const link;
  /// The values under way.
  SerializedValues outgoing;
  std::string first;
  /// Declared last: destroyed before the memory that they send.
  std::vector<std::unique_ptr<PendingMessage>> messages;
};

/// Waits for the next values that a Sender in process `from` sends, and appends them to `values`. Throws if
/// the process or the transport is gone, and if the message is malformed or exceeds `limits`.
/// \param buffer  scratch memory, which calls may share.
void receiveValues(Transport &transport, uint32_t from, Tag tag, SerializedLimits limits, TensorLink *link,
                   std::vector<char> &buffer, std::vector<c10::IValue> &values);

/// Receives values from another process, on a thread of its own.
class Receiver {
public:
  /// Received values are counted in `account`. Values beyond `limits` are rejected.
  Receiver(Transport &transport, uint32_t from, Tag tag, MemoryAccount &account, SerializedLimits limits,
           TensorLink *link = nullptr);
  /// Joins the thread. The transport must be closed by then, or no more values may be under way.
  ~Receiver();

  /// Waits for the next values. Throws what a message throws, and a std::exception that names the sender if
  /// its bytes are malformed.
  void take(std::vector<c10::IValue> &values);

private:
  void work();

  Transport &transport;
  const uint32_t from;
  const Tag tag;
  TensorLink *const link;
  const MemoryAccountRef account;
  const SerializedLimits limits;
  std::vector<char> buffer;
  std::mutex mutex;
  std::condition_variable changed;
  /// Received and not yet taken.
  std::vector<c10::IValue> arrived;
  bool isThere = false;
  std::exception_ptr failure;
  bool ending = false;
  std::thread thread;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_P2PCHANNEL_H
