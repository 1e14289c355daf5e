//===- MemoryTransport.h - Messages between threads -------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_RUNTIME_MEMORYTRANSPORT_H
#define CLEAVE_TESTS_UNIT_RUNTIME_MEMORYTRANSPORT_H

#include "runtime/comm/Transport.h"
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

namespace cleave::runtime {

/// Transports between threads, one for each rank. Like Gloo's, they do not buffer: a message moves once both
/// sides have issued their call.
class MemoryTransports {
public:
  /// The transport of `rank`.
  std::unique_ptr<Transport> transport(uint32_t rank);
  void close();
  /// Number of messages that have moved.
  std::atomic<int> messages{0};

private:
  class Member;
  class Waiting;
  struct Offer {
    void *data;
    size_t bytes;
    bool done = false;
  };
  /// Pending calls of one direction and tag.
  struct Way {
    std::deque<std::shared_ptr<Offer>> sends, receives;
  };
  std::unique_ptr<PendingMessage> offer(std::tuple<uint32_t, uint32_t, Tag> way, bool sends, void *data,
                                        size_t bytes);

  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::tuple<uint32_t, uint32_t, Tag>, Way> channels;
  bool isClosed = false;
};

} // namespace cleave::runtime

#endif // CLEAVE_TESTS_UNIT_RUNTIME_MEMORYTRANSPORT_H
