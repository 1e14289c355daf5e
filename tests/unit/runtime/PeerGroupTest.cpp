//===- PeerGroupTest.cpp - What processes of a group exchange -------------===//
#include "runtime/PeerGroup.h"
#include "runtime/LocalGroup.h"
#include "tests/unit/runtime/GlooBackend.h"
#include "tests/unit/runtime/MemoryWire.h"
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <functional>
#include <gmock/gmock.h>
#include <thread>

namespace cleave::runtime {

using at::Tensor;
using testing::HasSubstr;
using Work = std::function<Tensor(Communicator &group, uint32_t rank)>;

namespace {
class Forever final : public Patience {
public:
  bool isOver() const override { return false; }
  std::chrono::steady_clock::time_point deadline() override {
    return std::chrono::steady_clock::now() + std::chrono::seconds(60);
  }
  void expire() override { FAIL(); }
};
} // namespace

/// How many ranks, and whether tensors go between devices that are connected.
class PeerGroupTest : public testing::TestWithParam<std::tuple<uint32_t, bool>> {
protected:
  const uint32_t ranks = std::get<0>(GetParam());
  const bool connected = std::get<1>(GetParam());

  std::vector<Tensor> onThreads(const std::function<Tensor(uint32_t)> &work) {
    std::vector<Tensor> results(ranks);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] { results[rank] = work(rank); });
    for (std::thread &thread : threads)
      thread.join();
    return results;
  }

  std::unique_ptr<DeviceGroup> connectedTo(GlooBackends &backends, uint32_t rank) const {
    return connected ? std::make_unique<DeviceGroup>(backends.member(rank)) : nullptr;
  }

  /// That processes give the bits that threads give, but for sums that devices make in an order of their own.
  void expectSame(const Work &work, bool isLoose = false) {
    Forever patience;
    LocalGroup local(4, ranks, /*spins=*/false, patience);
    const std::vector<Tensor> expected =
        onThreads([&](uint32_t rank) { return work(local.member(rank), rank); });
    MemoryWires wires;
    GlooBackends backends(ranks);
    const std::vector<Tensor> found = onThreads([&](uint32_t rank) {
      // Not the plan's first ranks.
      std::unique_ptr<Wire> wire = wires.wire(4 + rank);
      std::unique_ptr<DeviceGroup> devices = connectedTo(backends, rank);
      PeerGroup group(*wire, 4, ranks, rank, devices.get());
      return work(group, rank);
    });
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(found[rank].sizes(), expected[rank].sizes());
      EXPECT_TRUE(found[rank].is_contiguous());
      const bool isNarrow = found[rank].scalar_type() == at::kBFloat16;
      EXPECT_TRUE(isLoose
                      ? at::allclose(found[rank], expected[rank], isNarrow ? 0.02 : 1e-5, isNarrow ? 1 : 1e-2)
                      : at::equal(found[rank], expected[rank]));
    }
  }

  static Tensor random(uint32_t rank, at::IntArrayRef sizes, c10::ScalarType dtype) {
    at::Generator generator = at::detail::createCPUGenerator(rank + 1);
    // The sum of two numbers that do not fit int16 is one that does, by what is left of it.
    const at::Tensor values = at::rand(sizes, generator);
    return dtype == at::kBool ? values < 0.3 : (values * (dtype == at::kShort ? 30000 : 1000)).to(dtype);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, PeerGroupTest, testing::Combine(testing::Values(2, 3, 5), testing::Bool()));

TEST_P(PeerGroupTest, AddsAsThreadsDo) {
  for (c10::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong, at::kDouble, at::kShort, at::kBool})
    for (int64_t rows : {0, 1, 7, 3001}) // the last has no room in a first message
      expectSame([&](Communicator &group,
                     uint32_t rank) { return group.allReduce(random(rank, {rows, 33}, dtype).t()); },
                 /*isLoose=*/connected && c10::isFloatingType(dtype));
}

TEST_P(PeerGroupTest, ScattersSums) {
  for (int64_t width : {5, 500})
    expectSame([&](Communicator &group, uint32_t rank) {
      const int64_t rows = 10 * ranks;
      // Two ranges each.
      const std::vector<int64_t> ranges = {10 * rank, 3, rows - 4, rank % 4};
      return group.reduceScatter(random(rank, {2, rows, width}, at::kFloat), 1, ranges);
    });
}

TEST_P(PeerGroupTest, GathersPieces) {
  // Some of the ranks have room in a first message, others not.
  for (int64_t width : {4, 900, 9000})
    expectSame([&](Communicator &group, uint32_t rank) {
      std::vector<int64_t> pieces;
      for (int64_t other = ranks - 1; other >= 0; --other)
        pieces.insert(pieces.end(), {other, 1, other + 1, other, 0, 1});
      return group.allGather(random(rank, {3, rank + 2, width}, at::kFloat), 1, pieces);
    });
}

TEST_P(PeerGroupTest, ExchangesPiecesForRanges) {
  for (int64_t width : {2, 2000})
    for (bool backwards : {false, true})
      expectSame([&](Communicator &group, uint32_t rank) {
        std::vector<int64_t> pieces;
        for (uint32_t other = 0; other < ranks; ++other)
          pieces.insert(pieces.end(), {other, 0, 3});
        const std::vector<int64_t> ranges = {2 * rank, 2};
        const Tensor tensor = random(
            rank, backwards ? at::IntArrayRef{2 * ranks, width, 3} : at::IntArrayRef{3, width, 2 * ranks},
            at::kFloat);
        return backwards ? group.allToAll(tensor, 2, pieces, 0, ranges)
                         : group.allToAll(tensor, 0, pieces, 2, ranges);
      });
}

TEST_P(PeerGroupTest, Broadcasts) {
  for (int64_t width : {0, 3, 30000})
    expectSame([&](Communicator &group, uint32_t rank) {
      return group.broadcast(random(rank, {2, width}, at::kInt), ranks - 1);
    });
}

TEST_P(PeerGroupTest, RefusesCallsThatDiffer) {
  MemoryWires wires;
  GlooBackends backends(ranks);
  onThreads([&](uint32_t rank) {
    std::unique_ptr<Wire> wire = wires.wire(4 + rank);
    std::unique_ptr<DeviceGroup> devices = connectedTo(backends, rank);
    PeerGroup group(*wire, 4, ranks, rank, devices.get());
    try {
      const Tensor given = at::ones({2, rank == 1 ? 3 : 2});
      // Devices add what they are given, without a word before.
      connected ? group.reduceScatter(given, 0, {0, 1}) : group.allReduce(given);
      ADD_FAILURE() << "rank " << rank << " was let through";
    } catch (const c10::Error &error) {
      EXPECT_THAT(error.what_without_backtrace(),
                  HasSubstr(connected
                                ? "rank 5 calls reduce_scatter of float32[2, 3] along 0, rank 4 calls "
                                  "reduce_scatter of float32[2, 2] along 0; expected the same call"
                                : "rank 5 calls all_reduce of float32[2, 3], rank 4 calls all_reduce of "
                                  "float32[2, 2]; expected the same call"));
    }
    return Tensor();
  });
}

TEST_P(PeerGroupTest, EndsWhenTheWireIsCut) {
  MemoryWires wires;
  std::unique_ptr<Wire> wire = wires.wire(4);
  PeerGroup group(*wire, 4, ranks, 0);
  std::thread waiting([&] { EXPECT_THROW(group.allReduce(at::ones({3})), WireCut); });
  while (group.awaited().empty())
    std::this_thread::yield();
  EXPECT_EQ(group.awaited(), "rank 5 in spmd::all_reduce");
  wires.cut();
  waiting.join();
}

} // namespace cleave::runtime
