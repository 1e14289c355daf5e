//===- CollectivesTest.cpp - What ranks of a group exchange ---------------===//
#include "collectives/Collectives.h"
#include "runtime/comm/Collectives.h"
#include "runtime/comm/local/LocalGroup.h"
#include "runtime/device/DeviceCollectives.h"
#include "tests/unit/runtime/Allocations.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <thread>

namespace cleave::runtime {

using at::Tensor;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

namespace {
using Work = std::function<Tensor(uint32_t rank)>;
} // namespace

class CollectivesTest : public testing::TestWithParam<uint32_t> {
protected:
  /// Results of `work` on each of `ranks` threads; `failure` is the first exception's message.
  std::vector<Tensor> onRanks(uint32_t ranks, const Work &work,
                              std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
    CancellationToken cancellation{{.timeout = timeout}};
    LocalGroup group(consecutiveRanks(10, ranks), spins, cancellation);
    std::vector<Tensor> results(ranks);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        member = &group.member(rank);
        try {
          results[rank] = work(rank);
        } catch (const c10::Error &error) {
          cancellation.cancel(error.what_without_backtrace());
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    failure = cancellation.message();
    return results;
  }

  static Tensor call(const char *name, std::vector<c10::IValue> operands) {
    callCollective(member, *collectiveOf(name), operands);
    return operands.at(0).toTensor();
  }
  static Tensor allReduce(const Tensor &x) { return call("spmd::all_reduce", {x}); }

  uint32_t ranks() const { return GetParam(); }

  /// The rank of this thread in its group.
  static inline thread_local Communicator *member = nullptr;

  bool spins = false;
  std::string failure;
};
using CollectiveFailures = CollectivesTest;

static std::string suffixOf(const testing::TestParamInfo<uint32_t> &info) {
  return "Of" + std::to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesTest, testing::Values(2, 3, 4, 8), suffixOf);

/// Different on every rank.
static Tensor valuesOf(uint32_t rank, at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  Tensor values =
      at::arange(at::zeros(sizes).numel()).mul(int64_t(7 * rank + 3)).remainder(101).sub(50).reshape(sizes);
  return dtype == at::kBool ? values.remainder(rank + 2).eq(0) : values.to(at::kDouble).div(3).to(dtype);
}

/// The sum in rank order.
static Tensor sumOf(uint32_t ranks, at::IntArrayRef sizes, at::ScalarType dtype) {
  const bool isNarrow = dtype == at::kHalf || dtype == at::kBFloat16;
  Tensor sum = valuesOf(0, sizes, dtype).to(isNarrow ? at::kFloat : dtype);
  for (uint32_t rank = 1; rank < ranks; ++rank)
    sum = dtype == at::kBool ? sum.logical_or(valuesOf(rank, sizes, dtype))
                             : sum + valuesOf(rank, sizes, dtype);
  return sum.to(dtype);
}

static const at::ScalarType kSummable[] = {at::kBool,  at::kByte,   at::kChar,         at::kShort,
                                           at::kInt,   at::kLong,   at::kHalf,         at::kBFloat16,
                                           at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};

TEST_P(CollectivesTest, AllReduceAddsInTheOrderOfRanks) {
  const std::vector<std::vector<int64_t>> shapes = {{}, {1}, {0, 3}, {7, 13}, {3, 1031}, {64, 128}};
  for (at::ScalarType dtype : kSummable)
    for (const std::vector<int64_t> &sizes : shapes)
      for (const Tensor &result :
           onRanks(ranks(), [&](uint32_t rank) { return allReduce(valuesOf(rank, sizes, dtype)); })) {
        ASSERT_EQ(failure, "");
        EXPECT_EQ(result.scalar_type(), dtype);
        EXPECT_EQ(result.sizes(), at::IntArrayRef(sizes));
        EXPECT_TRUE(at::equal(result, sumOf(ranks(), sizes, dtype))) << dtype << " " << sizes.size();
        // By libtorch's operators, as on GPUs.
        std::vector<Tensor> given;
        for (uint32_t rank = 0; rank < ranks(); ++rank)
          given.push_back(valuesOf(rank, sizes, dtype));
        EXPECT_TRUE(at::equal(sumOn(at::kCPU, given), result)) << dtype;
        EXPECT_TRUE(at::equal(given[0], valuesOf(0, sizes, dtype))) << "is not written";
      }
}

TEST_P(CollectivesTest, TakesTensorsThatAreNotContiguous) {
  for (const Tensor &result :
       onRanks(ranks(), [&](uint32_t rank) { return allReduce(valuesOf(rank, {6, 40}).t()); })) {
    EXPECT_TRUE(result.is_contiguous());
    EXPECT_TRUE(at::equal(result, sumOf(ranks(), {6, 40}, at::kFloat).t()));
  }
}

TEST_P(CollectivesTest, WrapsIntegersAndRoundsOnce) {
  auto max = onRanks(ranks(), [](uint32_t) { return allReduce(at::full({3}, 127, at::kChar)); });
  EXPECT_EQ(max[0][0].item<int64_t>(), int8_t(127 * ranks()));
  // 1 and many quarters of what bfloat16 tells from 1: a sum that is rounded after each would stay 1.
  const float quarter = 1.f / 512;
  auto sums = onRanks(ranks(), [&](uint32_t rank) {
    return allReduce(at::full({3}, rank == 0 ? 1.f : quarter, at::kBFloat16));
  });
  EXPECT_EQ(sums[1][0].item<float>(), float(c10::BFloat16(1 + (ranks() - 1) * quarter)));
}

/// Uneven parts of `extent` positions, the last one of none where there are more than two ranks.
static std::pair<int64_t, int64_t> partOf(uint32_t rank, uint32_t ranks, int64_t extent) {
  const uint32_t parts = ranks > 2 ? ranks - 1 : ranks;
  if (rank >= parts)
    return {extent, 0};
  const int64_t begin = rank * extent / parts;
  return {begin, (rank + 1) * extent / parts - begin};
}

TEST_P(CollectivesTest, AllGatherJoinsUnevenParts) {
  const Tensor whole = valuesOf(1, {5, 23, 3});
  for (int64_t dim : {0, 1, 2})
    for (at::ScalarType dtype : {at::kFloat, at::kBool, at::kLong, at::kHalf}) {
      std::vector<int64_t> pieces;
      for (uint32_t rank = 0; rank < ranks(); ++rank)
        pieces.insert(pieces.end(), {rank, 0, partOf(rank, ranks(), whole.size(dim)).second});
      for (const Tensor &result : onRanks(ranks(), [&](uint32_t rank) {
             auto [begin, size] = partOf(rank, ranks(), whole.size(dim));
             return call("spmd::all_gather", {whole.to(dtype).narrow(dim, begin, size), dim, pieces});
           }))
        EXPECT_TRUE(at::equal(result, whole.to(dtype))) << dim << failure;
    }
}

TEST_P(CollectivesTest, AllGatherOrdersPiecesOfFusedSegments) {
  // Each rank holds its part of three segments, one behind the other, as of a fused query, key and value.
  const int64_t width = 4, segment = width * ranks();
  const Tensor whole = valuesOf(1, {2, 3 * segment});
  std::vector<int64_t> pieces;
  for (int64_t part = 0; part < 3; ++part)
    for (uint32_t rank = 0; rank < ranks(); ++rank)
      pieces.insert(pieces.end(), {rank, part * width, width});
  auto results = onRanks(ranks(), [&](uint32_t rank) {
    const int64_t begin = rank * width;
    const Tensor own = shard(whole, 1, {begin, width, begin + segment, width, begin + 2 * segment, width});
    // The last rank needs a part only, in another order and twice.
    return call("spmd::all_gather",
                {own, 1, rank + 1 < ranks() ? pieces : std::vector<int64_t>{1, 2, 3, 0, 0, 1, 1, 2, 3}});
  });
  ASSERT_EQ(failure, "");
  for (uint32_t rank = 0; rank + 1 < ranks(); ++rank)
    EXPECT_TRUE(at::equal(results[rank], whole));
  EXPECT_TRUE(
      at::equal(results.back(),
                shard(whole, 1, {width + 2, 2, segment + width, 1, 0, 1, width + 2, 2, segment + width, 1})));
}

TEST_P(CollectivesTest, ReduceScatterAddsOwnRanges) {
  for (int64_t dim : {0, 1, 2})
    for (at::ScalarType dtype : kSummable) {
      auto results = onRanks(ranks(), [&](uint32_t rank) {
        auto [begin, size] = partOf(rank, ranks(), 17);
        return call("spmd::reduce_scatter",
                    {valuesOf(rank, {17, 17, 17}, dtype), dim, std::vector<int64_t>{begin, size, 2, 3}});
      });
      ASSERT_EQ(failure, "");
      for (uint32_t rank = 0; rank < ranks(); ++rank) {
        auto [begin, size] = partOf(rank, ranks(), 17);
        EXPECT_TRUE(
            at::equal(results[rank], shard(sumOf(ranks(), {17, 17, 17}, dtype), dim, {begin, size, 2, 3})))
            << dtype;
      }
    }
}

TEST_P(CollectivesTest, AllToAllChangesTheDimensionThatIsSplit) {
  const Tensor whole = valuesOf(1, {3, 19, 2, 21});
  for (auto [from, to] : std::vector<std::pair<int64_t, int64_t>>{{1, 3}, {3, 1}, {0, 1}, {2, 3}, {3, 0}}) {
    std::vector<int64_t> pieces;
    for (uint32_t rank = 0; rank < ranks(); ++rank)
      pieces.insert(pieces.end(), {rank, 0, partOf(rank, ranks(), whole.size(from)).second});
    auto results = onRanks(ranks(), [&, from = from, to = to](uint32_t rank) {
      auto [begin, size] = partOf(rank, ranks(), whole.size(from));
      auto [first, kept] = partOf(rank, ranks(), whole.size(to));
      return call("spmd::all_to_all", {whole.narrow(from, begin, size), from, pieces, to,
                                       std::vector<int64_t>{first, kept, 0, 1}});
    });
    ASSERT_EQ(failure, "");
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      auto [first, kept] = partOf(rank, ranks(), whole.size(to));
      EXPECT_TRUE(at::equal(results[rank], shard(whole, to, {first, kept, 0, 1}))) << from << " " << to;
    }
  }
}

TEST_P(CollectivesTest, BroadcastGivesTheRoots) {
  for (uint32_t root = 0; root < ranks(); ++root)
    for (const std::vector<int64_t> &sizes : {std::vector<int64_t>{}, {0}, {5, 6}})
      for (const Tensor &result : onRanks(ranks(), [&](uint32_t rank) {
             return call("spmd::broadcast", {valuesOf(rank, sizes, at::kDouble), int64_t(root)});
           }))
        EXPECT_TRUE(at::equal(result, valuesOf(root, sizes, at::kDouble)));
}

TEST_P(CollectivesTest, ManyCallsFollowOneAnother) {
  for (bool spinning : {false, true}) {
    spins = spinning;
    for (const Tensor &result : onRanks(ranks(), [&](uint32_t rank) {
           Tensor x = at::full({100}, int64_t(rank), at::kLong);
           for (int i = 0; i < 500; ++i)
             x = allReduce(x).remainder(1000003).add(int64_t(rank));
           return allReduce(x);
         }))
      EXPECT_TRUE(at::equal(result, onRanks(1, [&](uint32_t) {
                              int64_t sum = ranks() * (ranks() - 1) / 2, x = sum % 1000003;
                              for (int i = 0; i < 499; ++i)
                                x = (x * ranks() + sum) % 1000003;
                              return at::full({100}, int64_t(x * ranks() + sum), at::kLong);
                            })[0]));
  }
}

TEST_P(CollectivesTest, AllReduceAllocatesItsResultOnly) {
  auto counts = onRanks(ranks(), [&](uint32_t) {
    const Tensor x = at::ones({1000});
    allReduce(x);
    int64_t before = allocationsOfThisThread();
    at::empty(x.sizes(), x.options());
    const int64_t ofResult = allocationsOfThisThread() - before;
    std::vector<c10::IValue> stack{x};
    before = allocationsOfThisThread();
    callCollective(member, CollectiveOp::AllReduce, stack);
    return at::full({1}, allocationsOfThisThread() - before - ofResult, at::kLong);
  });
  for (const Tensor &beyond : counts)
    EXPECT_EQ(beyond.item<int64_t>(), 0);
}

//===- Failures -----------------------------------------------------------===//

TEST_F(CollectiveFailures, NeedAGroup) {
  EXPECT_THAT([] { allReduce(at::ones({2})); },
              testing::ThrowsMessage<c10::Error>(
                  HasSubstr("found no group of ranks, expected a plan with several ranks")));
}

TEST_F(CollectiveFailures, SayWhichRanksCallOtherThings) {
  auto other = [&](const Work &work) {
    onRanks(3, [&](uint32_t rank) { return rank == 1 ? work(rank) : allReduce(at::ones({2, 3})); });
    return failure;
  };
  const std::string rest =
      ", rank 10 calls all_reduce of float32[2, 3]; expected the same call on all ranks of a group";
  EXPECT_EQ(other([](uint32_t) { return allReduce(at::ones({3, 2})); }),
            "rank 11 calls all_reduce of float32[3, 2]" + rest);
  EXPECT_EQ(other([](uint32_t) { return allReduce(at::ones({6})); }),
            "rank 11 calls all_reduce of float32[6]" + rest);
  EXPECT_EQ(other([](uint32_t) { return allReduce(at::ones({2, 3}, at::kLong)); }),
            "rank 11 calls all_reduce of int64[2, 3]" + rest);
  EXPECT_EQ(other([](uint32_t) { return call("spmd::broadcast", {at::ones({2, 3}), 2}); }),
            "rank 11 calls broadcast of float32[2, 3] from 2" + rest);
  EXPECT_EQ(other([](uint32_t) {
              return call("spmd::all_gather", {at::ones({2, 3}), 1, std::vector<int64_t>{0, 0, 1}});
            }),
            "rank 11 calls all_gather of float32[2, 3] along 1" + rest);
}

TEST_F(CollectiveFailures, RefusePiecesThatAreNotThere) {
  auto gather = [&](std::vector<int64_t> pieces) {
    onRanks(2, [&](uint32_t rank) { return call("spmd::all_gather", {at::ones({2, 3 - rank}), 1, pieces}); });
    return failure;
  };
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(gather({0, 0, 3, 1, 0, 2}), "");
  EXPECT_EQ(gather({0, 0, 3, 1, 0, 3}), "found 3 positions from 0 on, expected them among 2");
  EXPECT_EQ(gather({1, 3, 0}), "found 0 positions from 3 on, expected them among 2");
  EXPECT_EQ(gather({1, 1, most}), "found 9223372036854775807 positions from 1 on, expected them among 2");
  EXPECT_EQ(gather({2, 0, 1}), "found a piece of rank 2, expected one of the group's 2");
  EXPECT_EQ(gather({-1, 0, 1}), "found a piece of rank -1, expected one of the group's 2");
  EXPECT_THAT(gather({0, -1, 1}), HasSubstr("expected none that is negative"));
  EXPECT_THAT(gather({0, 0}), HasSubstr("expected a multiple of 3"));
}

TEST_F(CollectiveFailures, RefuseRangesAndDimensionsThatAreNotThere) {
  auto with = [&](const Work &work) {
    onRanks(2, work);
    return failure;
  };
  const std::vector<int64_t> all = {0, 0, 2, 1, 0, 2};
  auto scatter = [&](int64_t dim, std::vector<int64_t> ranges) {
    return with([=](uint32_t) { return call("spmd::reduce_scatter", {at::ones({2, 3}), dim, ranges}); });
  };
  auto swap = [&](int64_t from, int64_t to, std::vector<int64_t> ranges) {
    return with(
        [=](uint32_t) { return call("spmd::all_to_all", {at::ones({2, 2}), from, all, to, ranges}); });
  };
  EXPECT_EQ(scatter(1, {1, 3}), "found 3 positions from 1 on, expected them among 3");
  EXPECT_EQ(with([](uint32_t) {
              return call("spmd::reduce_scatter",
                          {at::ones({int64_t(1) << 40, 0}), 1, std::vector<int64_t>{0, 0}});
            }),
            "")
      << "nothing, 2^40 times";
  EXPECT_EQ(scatter(2, {0, 1}), "found dimension 2, expected one of the tensor's 2");
  EXPECT_EQ(scatter(-1, {0, 1}), "found dimension -1, expected one of the tensor's 2");
  EXPECT_EQ(swap(0, 0, {0, 1}), "found dimensions 0 and 0, expected two of the tensor's 2");
  EXPECT_EQ(swap(5, 0, {0, 1}), "found dimensions 5 and 0, expected two of the tensor's 2");
  EXPECT_EQ(swap(0, 1, {2, 1}), "found 1 positions from 2 on, expected them among 2");
  EXPECT_EQ(with([](uint32_t) { return call("spmd::broadcast", {at::ones({2}), 2}); }),
            "found root 2, expected one of the group's 2 ranks");
  EXPECT_EQ(with([](uint32_t) { return allReduce(at::empty({2}, at::kFloat8_e5m2)); }),
            "found elements of Float8_e5m2, expected numbers that can be added");
}

TEST_F(CollectiveFailures, OfOneRankEndTheWaitsOfTheOthers) {
  const auto begin = steady_clock::now();
  for (bool spinning : {false, true}) {
    spins = spinning;
    for (int i = 0; i < 20; ++i) {
      onRanks(4, [&](uint32_t rank) {
        Tensor x = allReduce(at::ones({1000}));
        TORCH_CHECK(rank != 2, "broken");
        return allReduce(x);
      });
      EXPECT_EQ(failure, "broken");
    }
  }
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(CollectiveFailures, EndWaitsAtTheDeadline) {
  const auto begin = steady_clock::now();
  onRanks(
      3, [&](uint32_t rank) { return rank == 1 ? Tensor() : allReduce(at::ones({8})); },
      std::chrono::milliseconds(100));
  EXPECT_EQ(failure, "no result after 0 s; allow more time (--timeout)");
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(10));
}

} // namespace cleave::runtime
