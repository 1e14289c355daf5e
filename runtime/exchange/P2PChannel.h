//===- P2PChannel.h - Values between the stages of two processes ------*- C++ -*-===//
//
// A parcel is one message where it is small, and otherwise one with the header and one for each block:
//
//   | header bytes u64 | block bytes u64 | header … | blocks … |      up to 64 KiB together
//
// Either side is one parcel ahead: what was sent last may still be on its way while its stage computes, and
// the next parcel is received while the one before it is worked on. So transfers hide behind computing, and
// two parcels more are held at most.
//
// Where a TensorLink is beside the messages, the tensors of its device go by that. They follow once the first
// message has been taken, so that neither device holds up what waits for it.
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

/// The way of values to another process. One thread at a time.
class Sender {
public:
  /// \param link  null where all goes through main memory. Both ends have one or none.
  Sender(Transport &transport, uint32_t to, Tag tag, TensorLink *link = nullptr)
      : transport(transport), to(to), tag(tag), link(link) {}

  /// Sends `values`, leaving none in it, once what was sent before has been taken. Throws what a message
  /// throws.
  void send(std::vector<c10::IValue> &values);
  /// Returns when all has been taken.
  void flush();

private:
  Transport &transport;
  const uint32_t to;
  const Tag tag;
  TensorLink *const link;
  /// What is on its way.
  SerializedValues outgoing;
  std::string first;
  /// Gone before what they send.
  std::vector<std::unique_ptr<Message>> messages;
};

/// The way of values from another process.
class Receiver {
public:
  /// What comes counts as held by `account`, and is refused where it is more than `limits`.
  Receiver(Transport &transport, uint32_t from, Tag tag, MemoryAccount &account, SerializedLimits limits,
        TensorLink *link = nullptr);
  /// The wire has been cut, or nothing is to come any more.
  ~Receiver();

  /// Waits for the next values. Throws what a message throws, and a std::exception that names the sender for
  /// what are no values.
  void take(std::vector<c10::IValue> &values);

private:
  void work();
  void receive(std::vector<c10::IValue> &values);

  Transport &transport;
  const uint32_t from;
  const Tag tag;
  TensorLink *const link;
  const MemoryAccountRef account;
  const SerializedLimits limits;
  std::vector<char> first;
  std::mutex mutex;
  std::condition_variable changed;
  /// What has come and was not taken yet.
  std::vector<c10::IValue> arrived;
  bool isThere = false;
  std::exception_ptr failure;
  bool ending = false;
  std::thread thread;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_P2PCHANNEL_H
