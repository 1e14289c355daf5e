//===- ArenaTest.cpp - Memory that is used again --------------------------===//
#include "runtime/device/Arena.h"
#include "runtime/device/MemoryAccount.h"
#include <ATen/ATen.h>
#include <atomic>
#include <cstring>
#include <deque>
#include <gmock/gmock.h>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace cleave::runtime {

static constexpr size_t megabyte = size_t(1) << 20;

/// Where the user's bytes begin, as MemoryAccount.cpp has it.
static char *dataOf(Arena::Block *block) { return reinterpret_cast<char *>(block) + 64; }

TEST(ArenaTest, GivesTheSameMemoryAgain) {
  Arena::Handle arena = Arena::create();
  for (size_t bytes : {65ul, 4000ul, 100000ul, 50 * megabyte}) {
    Arena::Block *first = arena->allocate(bytes);
    Arena::free(first);
    EXPECT_EQ(arena->allocate(bytes), first);
    Arena::free(first);
  }
}

TEST(ArenaTest, AlignsBlocks) {
  Arena::Handle arena = Arena::create();
  std::vector<Arena::Block *> blocks;
  for (size_t bytes = 64; bytes < 3 * megabyte; bytes = bytes * 5 / 4 + 1)
    blocks.push_back(arena->allocate(bytes));
  for (Arena::Block *block : blocks) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0);
    Arena::free(block);
  }
}

TEST(ArenaTest, FreeNeighboursBecomeOne) {
  Arena::Handle arena = Arena::create();
  std::vector<Arena::Block *> blocks;
  for (int i = 0; i < 20; ++i)
    blocks.push_back(arena->allocate(megabyte));
  const size_t mapped = arena->mappedBytes();
  // Every second one, then those between.
  for (size_t start : {0, 1})
    for (size_t i = start; i < blocks.size(); i += 2)
      Arena::free(blocks[i]);
  Arena::Block *large = arena->allocate(20 * megabyte);
  EXPECT_EQ(large, blocks.front());
  EXPECT_EQ(arena->mappedBytes(), mapped);
  Arena::free(large);
}

TEST(ArenaTest, HoldsLittleMoreThanLives) {
  for (size_t bytes : {1000ul, 70001ul, megabyte + 1, 7 * megabyte, 17 * megabyte, 130 * megabyte}) {
    Arena::Handle arena = Arena::create();
    std::vector<Arena::Block *> blocks;
    size_t wanted = 0;
    while (wanted < 500 * megabyte && blocks.size() < 100000) {
      blocks.push_back(arena->allocate(bytes));
      wanted += bytes;
    }
    // And the shared chunk that was begun last.
    EXPECT_LT(arena->mappedBytes(), wanted + wanted / 8 + 32 * megabyte) << bytes;
    for (Arena::Block *block : blocks)
      Arena::free(block);
  }
}

TEST(ArenaTest, GivesFreeChunksBackBeforeItTakesMore) {
  Arena::Handle arena = Arena::create();
  for (size_t megabytes = 40; megabytes < 400; megabytes += 40) {
    Arena::free(arena->allocate(megabytes * megabyte));
    EXPECT_LT(arena->mappedBytes(), (megabytes + megabytes / 16 + 4) * megabyte);
  }
}

TEST(ArenaTest, KeepsTheChunksThatTheNextRequestNeeds) {
  Arena::Handle arena = Arena::create();
  for (int request = 0; request < 3; ++request) {
    std::vector<Arena::Block *> blocks;
    for (int i = 0; i < 20; ++i)
      blocks.push_back(arena->allocate(20 * megabyte));
    for (Arena::Block *block : blocks)
      Arena::free(block);
    Arena::free(arena->allocate(50 * megabyte));
    EXPECT_GT(arena->mappedBytes(), 450 * megabyte);
    EXPECT_LT(arena->mappedBytes(), 500 * megabyte);
  }
}

/// Requests of random lengths, each with the blocks of a few layers of a transformer, of which the caller
/// keeps the last three results.
TEST(ArenaTest, StaysFlatOverRequestsOfEverySize) {
  Arena::Handle arena = Arena::create();
  std::mt19937 random(1);
  size_t live = 0, peak = 0, mapped = 0;
  std::deque<std::pair<Arena::Block *, size_t>> results;
  auto allocate = [&](size_t bytes) {
    peak = std::max(peak, live += bytes);
    return std::pair(arena->allocate(bytes), bytes);
  };
  auto release = [&](std::pair<Arena::Block *, size_t> block) {
    Arena::free(block.first);
    live -= block.second;
  };
  for (int request = 0; request < 2000; ++request) {
    const size_t length = 1 + random() % 1000;
    auto hidden = allocate(length * 3072);
    for (int layer = 0; layer < 4; ++layer) {
      auto projected = allocate(length * 9216);
      auto scores = allocate(length * length * 48), weights = allocate(length * length * 48);
      release(scores);
      auto mixed = allocate(length * 3072);
      release(weights);
      release(projected);
      release(std::exchange(hidden, mixed));
      auto wide = allocate(length * 12288), active = allocate(length * 12288);
      release(wide);
      release(std::exchange(hidden, allocate(length * 3072)));
      release(active);
    }
    results.push_back(allocate(length * 200000));
    release(hidden);
    if (results.size() > 3) {
      release(results.front());
      results.pop_front();
    }
    mapped = std::max(mapped, arena->mappedBytes());
  }
  EXPECT_LT(mapped, peak + peak / 8) << "of " << peak;
  for (auto result : results)
    release(result);
}

TEST(ArenaTest, SaysWhereTheSystemHasNoMore) {
  Arena::Handle arena = Arena::create();
  EXPECT_EQ(arena->allocate(size_t(1) << 50), nullptr);
  EXPECT_EQ(arena->mappedBytes(), 0);
}

TEST(ArenaTest, BlocksOutliveTheHandle) {
  Arena::Handle arena = Arena::create();
  Arena::Block *kept = arena->allocate(10 * megabyte);
  Arena::free(arena->allocate(100 * megabyte));
  arena.reset();
  std::memset(dataOf(kept), 1, 10 * megabyte - 64);
  std::thread([kept] { Arena::free(kept); }).join();
}

/// Allocates and frees at random, in part what other threads have allocated, and holds every block to what
/// was written into it.
static void churn(Arena &arena, std::vector<std::atomic<Arena::Block *>> &shared, unsigned seed) {
  std::mt19937 random(seed);
  for (int i = 0; i < 20000; ++i) {
    const size_t bytes = 80 + (random() % 100) * (random() % 100) * (random() % 50);
    Arena::Block *block = arena.allocate(bytes);
    ASSERT_NE(block, nullptr);
    char *data = dataOf(block);
    std::memcpy(data, &bytes, sizeof(bytes));
    data[bytes - 65] = char(bytes);
    Arena::Block *other = shared[random() % shared.size()].exchange(block);
    if (!other)
      continue;
    size_t found;
    std::memcpy(&found, dataOf(other), sizeof(found));
    ASSERT_EQ(dataOf(other)[found - 65], char(found));
    Arena::free(other);
  }
}

TEST(ArenaTest, ManyThreadsAllocateAndFree) {
  Arena::Handle arena = Arena::create();
  std::vector<std::atomic<Arena::Block *>> shared(200);
  auto round = [&] {
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 4; ++seed)
      threads.emplace_back([&, seed] { churn(*arena, shared, seed); });
    for (std::thread &thread : threads)
      thread.join();
  };
  round();
  const size_t mapped = arena->mappedBytes();
  round();
  // Flat, but for what chance needs.
  EXPECT_LE(arena->mappedBytes(), mapped + 32 * megabyte);
  for (std::atomic<Arena::Block *> &block : shared)
    if (block)
      Arena::free(block);
  // All is free: one block can have it.
  Arena::Block *large = arena->allocate(30 * megabyte);
  EXPECT_LE(arena->mappedBytes(), mapped + 32 * megabyte);
  Arena::free(large);
}

TEST(ArenaTest, TensorsComeFromTheArenaOfTheThreadsAccount) {
  MemoryAccountRef account(new MemoryAccount("test"));
  at::Tensor outside = at::empty({1000});
  EXPECT_EQ(account->arena().mappedBytes(), 0);
  ScopedAccount counted(*account);
  at::Tensor first = at::empty({1000});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data_ptr()) % 64, 0);
  EXPECT_GT(account->arena().mappedBytes(), 0);
  const void *address = first.data_ptr();
  std::thread([tensor = std::move(first)]() mutable { tensor.reset(); }).join();
  EXPECT_EQ(at::empty({1000}).data_ptr(), address);
  EXPECT_EQ(at::empty({0}).data_ptr(), nullptr);
}

TEST(ArenaTest, BlocksThatMoveToAnotherAccountGoBackWhereTheyAreFrom) {
  MemoryAccountRef giver(new MemoryAccount("giver")), receiver(new MemoryAccount("receiver"));
  at::Tensor tensor;
  {
    ScopedAccount counted(*giver);
    tensor = at::ones({1000});
  }
  const void *address = tensor.data_ptr();
  moveAccounting(tensor, *receiver);
  tensor.reset();
  {
    ScopedAccount counted(*giver);
    tensor = at::ones({1000});
  }
  EXPECT_EQ(tensor.data_ptr(), address);
  moveAccounting(tensor, *receiver);
  giver.reset();
  EXPECT_EQ(tensor.sum().item<float>(), 1000);
}

TEST(ArenaTest, WhatIsKeptForLaterDoesNotCountAgainstTheLimit) {
  MemoryAccountRef account(new MemoryAccount("cpu:0", 100 * megabyte));
  ScopedAccount counted(*account);
  for (int64_t megabytes = 10; megabytes <= 100; megabytes += 10)
    at::empty({megabytes * int64_t(megabyte)}, at::kByte);
  EXPECT_EQ(account->heldBytes(), 0);
  EXPECT_EQ(account->peakBytes(), 100 * megabyte);
  EXPECT_THROW(at::empty({101 * int64_t(megabyte)}, at::kByte), c10::OutOfMemoryError);
  EXPECT_EQ(account->heldBytes(), 0);
}

TEST(ArenaTest, WhatThereIsNoMemoryForIsInNoPeak) {
  MemoryAccountRef account(new MemoryAccount("cpu:0"));
  ScopedAccount counted(*account);
  EXPECT_THROW(at::empty({int64_t(1) << 50}, at::kByte), c10::OutOfMemoryError);
  EXPECT_EQ(account->peakBytes(), 0);
}

} // namespace cleave::runtime
