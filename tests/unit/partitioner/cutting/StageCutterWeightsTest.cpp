//===- StageCutterWeightsTest.cpp - Stages that may hold so much ----------===//
#include "partitioner/cutting/StageCutter.h"

#include "tests/unit/partitioner/RandomGraph.h"
#include "gtest/gtest.h"
#include <numeric>

using namespace cleave;

/// In tens the cut is the fastest of all, but stage 10 may hold less.
TEST(StageCutterWeights, SaysWhetherCutsWereRefusedForOneStage) {
  StageGraph graph = chain(std::vector<double>(320, 1));
  for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
    graph.nodes[node].weights = {node};
    graph.weightBytes.push_back(10);
  }
  CutRequest request;
  request.stages.assign(32, {Link{0, 1e9}, 1000});
  const StageCut free = llvm::cantFail(cutStages(graph, request));
  EXPECT_NEAR(free.slowest(), 10, 1e-6);
  EXPECT_EQ(free.weightLimitRange.tooLarge, LimitRange::kNoLimit);
  request.stages[10].weightLimit = 90;
  const StageCut refused = llvm::cantFail(cutStages(graph, request));
  EXPECT_NEAR(refused.slowest(), 11, 1e-6);
  EXPECT_TRUE(refused.isExact);
  EXPECT_NE(refused.weightLimitRange.tooLarge, LimitRange::kNoLimit);
}

TEST(StageCutterWeights, KeepsEachDeviceWithinItsWeights) {
  StageGraph graph = chain({1, 1, 1, 1});
  graph.weightBytes.assign(4, 10);
  for (uint32_t node = 0; node < 4; ++node)
    graph.nodes[node].weights = {node};
  CutRequest request;
  request.stages.resize(2);
  request.stages[0].weightLimit = 30;
  request.stages[1].weightLimit = 10;
  EXPECT_EQ(llvm::cantFail(cutStages(graph, request)).stageOf, (std::vector<uint32_t>{0, 0, 0, 1}));
}

/// One limit for all stages: with those that a cut names it is the same, and it names its own.
TEST(StageCutterWeights, NamesTheLimitsThatChangeNothing) {
  uint32_t bounded = 0, others = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const StageGraph graph = randomGraph(dice, 2 + dice.below(9));
    CutRequest request;
    request.stages.resize(1 + dice.below(std::min<uint32_t>(3, graph.nodes.size())));
    auto cutWithin = [&](int64_t limit) {
      for (StageDevice &stage : request.stages)
        stage.weightLimit = limit;
      return cutStages(graph, request);
    };
    const int64_t all = std::accumulate(graph.weightBytes.begin(), graph.weightBytes.end(), int64_t(0)),
                  limit = dice.below(all + 2);
    llvm::Expected<StageCut> found = cutWithin(limit);
    if (!found) {
      llvm::consumeError(found.takeError());
      continue;
    }
    const LimitRange range = found->weightLimitRange;
    EXPECT_TRUE(range.contains(limit));
    bounded += range.tooLarge != LimitRange::kNoLimit;
    for (int64_t other :
         {range.least, (range.least + limit) / 2, limit + (std::min(range.tooLarge, all + 9) - limit) / 2,
          std::min(range.tooLarge, all + 9) - 1}) {
      llvm::Expected<StageCut> same = cutWithin(other);
      ASSERT_TRUE(bool(same)) << toString(same.takeError());
      EXPECT_EQ(same->stageOf, found->stageOf);
      EXPECT_EQ(same->seconds, found->seconds);
      EXPECT_EQ(same->weightLimitRange, range);
      others += other != limit;
    }
  }
  EXPECT_GT(bounded, 10u);
  EXPECT_GT(others, 500u);
}
