//===- MemoryTransport.cpp - Messages between threads ---------------------===//
#include "tests/unit/runtime/MemoryTransport.h"
#include <cstring>
#include <gtest/gtest.h>

namespace cleave::runtime {

class MemoryTransports::Member final : public Transport {
public:
  Member(MemoryTransports &transports, uint32_t rank) : transports(transports), rank(rank) {}
  std::unique_ptr<PendingMessage> send(uint32_t to, Tag tag, const void *data, size_t bytes) override {
    return transports.offer({rank, to, tag}, /*sends=*/true, const_cast<void *>(data), bytes);
  }
  std::unique_ptr<PendingMessage> receive(uint32_t from, Tag tag, void *data, size_t bytes) override {
    return transports.offer({from, rank, tag}, /*sends=*/false, data, bytes);
  }
  void close() override { transports.close(); }

private:
  MemoryTransports &transports;
  const uint32_t rank;
};

class MemoryTransports::Waiting final : public PendingMessage {
public:
  Waiting(MemoryTransports &transports, std::shared_ptr<Offer> offer)
      : transports(transports), offer(std::move(offer)) {}
  void wait() override {
    std::unique_lock lock(transports.mutex);
    transports.changed.wait(lock, [&] { return offer->done || transports.isClosed; });
    if (!offer->done)
      throw TransportClosed();
  }

private:
  MemoryTransports &transports;
  const std::shared_ptr<Offer> offer;
};

std::unique_ptr<Transport> MemoryTransports::transport(uint32_t rank) {
  return std::make_unique<Member>(*this, rank);
}

void MemoryTransports::close() {
  std::lock_guard lock(mutex);
  isClosed = true;
  changed.notify_all();
}

std::unique_ptr<PendingMessage> MemoryTransports::offer(std::tuple<uint32_t, uint32_t, Tag> key, bool sends,
                                                        void *data, size_t bytes) {
  std::lock_guard lock(mutex);
  Way &way = channels[key];
  auto own = std::make_shared<Offer>(Offer{data, bytes});
  (sends ? way.sends : way.receives).push_back(own);
  while (!way.sends.empty() && !way.receives.empty()) {
    Offer &from = *way.sends.front(), &to = *way.receives.front();
    EXPECT_LE(from.bytes, to.bytes);
    std::memcpy(to.data, from.data, std::min(from.bytes, to.bytes));
    from.done = to.done = true;
    way.sends.pop_front();
    way.receives.pop_front();
    ++messages;
    changed.notify_all();
  }
  return std::make_unique<Waiting>(*this, own);
}

} // namespace cleave::runtime
