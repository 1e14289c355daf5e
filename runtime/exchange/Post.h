//===- Post.h - Values between the stages of two processes ------*- C++ -*-===//
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
#ifndef CLEAVE_RUNTIME_EXCHANGE_POST_H
#define CLEAVE_RUNTIME_EXCHANGE_POST_H

#include "runtime/comm/TensorLink.h"
#include "runtime/comm/Wire.h"
#include "runtime/device/MemoryAccount.h"
#include "runtime/exchange/Parcel.h"
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
class Outbox {
public:
  /// \param link  null where all goes through main memory. Both ends have one or none.
  Outbox(Wire &wire, uint32_t to, Topic topic, TensorLink *link = nullptr)
      : wire(wire), to(to), topic(topic), link(link) {}

  /// Sends `values`, leaving none in it, once what was sent before has been taken. Throws what a message
  /// throws.
  void send(std::vector<c10::IValue> &values);
  /// Returns when all has been taken.
  void flush();

private:
  Wire &wire;
  const uint32_t to;
  const Topic topic;
  TensorLink *const link;
  /// What is on its way.
  Parcel parcel;
  std::string first;
  /// Gone before what they send.
  std::vector<std::unique_ptr<Message>> messages;
};

/// The way of values from another process.
class Inbox {
public:
  /// What comes counts as held by `account`, and is refused where it is more than `limits`.
  Inbox(Wire &wire, uint32_t from, Topic topic, MemoryAccount &account, ParcelLimits limits,
        TensorLink *link = nullptr);
  /// The wire has been cut, or nothing is to come any more.
  ~Inbox();

  /// Waits for the next values. Throws what a message throws, and a std::exception that names the sender for
  /// what are no values.
  void take(std::vector<c10::IValue> &values);

private:
  void work();
  void receive(std::vector<c10::IValue> &values);

  Wire &wire;
  const uint32_t from;
  const Topic topic;
  TensorLink *const link;
  const MemoryAccountRef account;
  const ParcelLimits limits;
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

#endif // CLEAVE_RUNTIME_EXCHANGE_POST_H
