//===- PeerGroupTest.cpp - What processes of a group exchange -------------===//
#include "runtime/comm/process/PeerGroup.h"
#include "runtime/comm/local/LocalGroup.h"
#include "tests/unit/runtime/FakeNccl.h"
#include "tests/unit/runtime/MemoryTransport.h"
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <functional>
#include <gmock/gmock.h>
#include <limits>
#include <thread>

namespace cleave::runtime {

using at::Tensor;
using testing::HasSubstr;
using Work = std::function<Tensor(Communicator &group, uint32_t rank)>;

/// Parameters: number of ranks, and whether their devices are connected.
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

  std::unique_ptr<DeviceProcessGroup> connectedTo(FakeNcclGroup &backends, uint32_t rank) const {
    return connected ? std::make_unique<DeviceProcessGroup>(backends.member(rank)) : nullptr;
  }

  /// Expects the results of LocalGroup bit for bit; `isLoose` allows rounding, for sums that devices order
  /// themselves.
  void expectSame(const Work &work, bool isLoose = false) {
    CancellationToken cancellation({});
    LocalGroup local(consecutiveRanks(4, ranks), /*spins=*/false, cancellation);
    const std::vector<Tensor> expected =
        onThreads([&](uint32_t rank) { return work(local.member(rank), rank); });
    MemoryTransports transports;
    FakeNcclGroup backends(ranks);
    const std::vector<Tensor> found = onThreads([&](uint32_t rank) {
      // The group does not begin with rank 0 of the plan.
      std::unique_ptr<Transport> transport = transports.transport(4 + rank);
      std::unique_ptr<DeviceProcessGroup> devices = connectedTo(backends, rank);
      PeerGroup group(*transport, consecutiveRanks(4, ranks), rank, devices.get());
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
    // int16 sums wrap.
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
  // Tensors of some ranks fit into a first-round message, others do not.
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
  MemoryTransports transports;
  FakeNcclGroup backends(ranks);
  onThreads([&](uint32_t rank) {
    std::unique_ptr<Transport> transport = transports.transport(4 + rank);
    std::unique_ptr<DeviceProcessGroup> devices = connectedTo(backends, rank);
    PeerGroup group(*transport, consecutiveRanks(4, ranks), rank, devices.get());
    try {
      const Tensor given = at::ones({2, rank == 1 ? 3 : 2});
      // Devices reduce without a first round.
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

namespace {
/// Arguments of a rank in the first round, number by number, for a float32[4] that is not inlined.
struct Forged {
  CollectiveOp operation = CollectiveOp::AllGather;
  uint8_t dtype = uint8_t(at::kFloat);
  int64_t dim = 0, splitDimOrRoot = -1, inlined = -1, sizes = 1, pieces = 0, ranges = 0;
  std::vector<int64_t> numbers = {4};

  std::string bytes() const {
    std::string text(8, '\0');
    text[0] = char(operation);
    text[1] = char(dtype);
    std::vector<int64_t> all = {dim, splitDimOrRoot, inlined, sizes, pieces, ranges};
    all.insert(all.end(), numbers.begin(), numbers.end());
    return text.append(reinterpret_cast<const char *>(all.data()), all.size() * sizeof(int64_t));
  }
};
} // namespace

/// What rank 4, which gathers two float32[4], throws after rank 5 sends `message`; empty if the message is
/// accepted.
static std::string refusalOf(const std::string &message) {
  MemoryTransports transports;
  std::unique_ptr<Transport> transport = transports.transport(4), hostile = transports.transport(5);
  std::vector<char> heard(64 << 10), taken(64 << 10), given(4 * sizeof(float));
  auto asked = hostile->receive(4, Tag::Collective, heard.data(), heard.size());
  auto said = hostile->send(4, Tag::Collective, message.data(), message.size());
  // Answers the second round of an accepted call.
  auto takes = hostile->receive(4, Tag::Collective, taken.data(), taken.size());
  auto gives = hostile->send(4, Tag::Collective, given.data(), given.size());
  PeerGroup group(*transport, {4, 5}, 0);
  try {
    EXPECT_EQ(group.allGather(at::ones({4}), 0, {0, 0, 4, 1, 0, 4}).numel(), 8);
    return "";
  } catch (const c10::Error &error) {
    return error.what_without_backtrace();
  }
}

TEST(PeerGroupMessageTest, AreRefusedWhereTheyAreNone) {
  const std::string named = "a message of rank 5: ";
  const std::string noCall = named + "found another message than a call of the group";
  Forged operation, dtype, count, overflow, negative, impossible, inlined;
  operation.operation = CollectiveOp(77);
  EXPECT_EQ(refusalOf(operation.bytes()), noCall);
  dtype.dtype = 200;
  EXPECT_EQ(refusalOf(dtype.bytes()), noCall);
  count.pieces = 1 << 20;
  EXPECT_EQ(refusalOf(count.bytes()), noCall);
  overflow.pieces = 4;
  overflow.ranges = std::numeric_limits<int64_t>::max() - 1;
  EXPECT_EQ(refusalOf(overflow.bytes()), noCall);
  negative.sizes = -1;
  EXPECT_EQ(refusalOf(negative.bytes()), noCall);
  impossible.numbers = {std::numeric_limits<int64_t>::max()};
  EXPECT_EQ(refusalOf(impossible.bytes()), named + "found a tensor of impossible size");
  inlined.inlined = 1 << 20;
  EXPECT_EQ(refusalOf(inlined.bytes()), named + "found another tensor than its rank tells of");
}

TEST(PeerGroupMessageTest, AreRefusedWhereTheyWantMoreThanThereIs) {
  const std::string named = "a message of rank 5: ";
  Forged broken, often, ranges;
  broken.pieces = 4;
  broken.numbers = {4, 0, 0, 4, 1};
  EXPECT_THAT(refusalOf(broken.bytes()),
              HasSubstr(named + "found a list of 4 numbers, expected a multiple of 3"));
  often.pieces = 9;
  often.numbers = {4, 0, 0, 4, 0, 0, 4, 0, 0, 4};
  EXPECT_THAT(refusalOf(often.bytes()), HasSubstr(named + "found pieces of 12 positions"));
  ranges.ranges = 2;
  ranges.numbers = {4, 0, 1};
  EXPECT_THAT(refusalOf(ranges.bytes()), HasSubstr(named + "found pieces of 0 positions and ranges of 1"));
}

TEST(PeerGroupMessageTest, PassWhereTheyAreRight) {
  Forged whole;
  whole.pieces = 6;
  whole.numbers = {4, 0, 0, 4, 1, 0, 4};
  EXPECT_EQ(refusalOf(whole.bytes()), "");
}

TEST_P(PeerGroupTest, EndsWhenTheWireIsCut) {
  MemoryTransports transports;
  std::unique_ptr<Transport> transport = transports.transport(4);
  PeerGroup group(*transport, consecutiveRanks(4, ranks), 0);
  std::thread waiting([&] { EXPECT_THROW(group.allReduce(at::ones({3})), TransportClosed); });
  while (group.awaited().empty())
    std::this_thread::yield();
  EXPECT_EQ(group.awaited(), "rank 5 in spmd::all_reduce");
  transports.close();
  waiting.join();
}

} // namespace cleave::runtime
