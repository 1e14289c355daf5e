//===- MemoryWire.cpp - Messages between threads --------------------------===//
#include "tests/unit/runtime/MemoryWire.h"
#include <cstring>
#include <gtest/gtest.h>

namespace cleave::runtime {

class MemoryWires::Member final : public Wire {
public:
  Member(MemoryWires &wires, uint32_t rank) : wires(wires), rank(rank) {}
  std::unique_ptr<Message> send(uint32_t to, Topic topic, const void *data, size_t bytes) override {
    return wires.offer({rank, to, topic}, /*sends=*/true, const_cast<void *>(data), bytes);
  }
  std::unique_ptr<Message> receive(uint32_t from, Topic topic, void *data, size_t bytes) override {
    return wires.offer({from, rank, topic}, /*sends=*/false, data, bytes);
  }
  void cut() override { wires.cut(); }

private:
  MemoryWires &wires;
  const uint32_t rank;
};

class MemoryWires::Waiting final : public Message {
public:
  Waiting(MemoryWires &wires, std::shared_ptr<Offer> offer) : wires(wires), offer(std::move(offer)) {}
  void wait() override {
    std::unique_lock lock(wires.mutex);
    wires.changed.wait(lock, [&] { return offer->done || wires.isCut; });
    if (!offer->done)
      throw WireCut();
  }

private:
  MemoryWires &wires;
  const std::shared_ptr<Offer> offer;
};

std::unique_ptr<Wire> MemoryWires::wire(uint32_t rank) { return std::make_unique<Member>(*this, rank); }

void MemoryWires::cut() {
  std::lock_guard lock(mutex);
  isCut = true;
  changed.notify_all();
}

std::unique_ptr<Message> MemoryWires::offer(std::tuple<uint32_t, uint32_t, Topic> key, bool sends, void *data,
                                            size_t bytes) {
  std::lock_guard lock(mutex);
  Way &way = ways[key];
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
