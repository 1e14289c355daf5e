//===- StageCutterLimitsTest.cpp - Cuts that no search can prove ----------===//
#include "partitioner/cutting/StageCutter.h"

#include "tests/unit/partitioner/RandomGraph.h"
#include "gtest/gtest.h"
#include <set>
#include <sys/resource.h>

using namespace cleave;

/// `width` chains of `length` nodes of one second side by side, one after the other in program order, and
/// what joins them.
static StageGraph towers(uint32_t width, uint32_t length) {
  StageGraph graph;
  for (uint32_t node = 0; node < width * length; ++node) {
    graph.nodes.push_back({"op", 1, {}});
    graph.values.push_back({node, 1, {(node + 1) % length == 0 ? width * length : node + 1}});
  }
  graph.nodes.push_back({"join", 0, {}});
  return graph;
}

TEST(StageCutterLimits, SaysWhyItIsNotExact) {
  CutRequest request;
  request.stages.assign(3, {Link{0, /*bytesPerSecond=*/1e9}});
  EXPECT_EQ(llvm::cantFail(cutStages(towers(40, 1), request)).describe(request.limits),
            "linearised: more than 200,000 downsets");
  // Chains in pieces that are kept whole have fewer.
  request.limits.downsets = 2000;
  const StageCut cut = llvm::cantFail(cutStages(towers(2, 50), request));
  EXPECT_EQ(cut.describe(request.limits), "not proven: more than 2,000 downsets");
  EXPECT_LE(cut.lowerBound, 100.0 / 3 + 1e-9);
  request.limits.downsets = 200000;
  request.limits.work = 10000;
  EXPECT_EQ(llvm::cantFail(cutStages(towers(2, 50), request)).describe(request.limits),
            "not proven: more than 10,000 steps");
}

TEST(StageCutterLimits, GivesTheBestSoFarWhereItIsToEnd) {
  CutRequest request;
  request.stages.assign(3, {Link{0, /*bytesPerSecond=*/1e9}});
  const StageGraph graph = towers(2, 50);
  const StageCut whole = llvm::cantFail(cutStages(graph, request));
  for (int questions : {0, 1, 3}) {
    CancellationScope ending([&] { return questions-- <= 0; });
    const StageCut cut = llvm::cantFail(cutStages(graph, request));
    EXPECT_EQ(cut.describe(request.limits), "not proven: interrupted");
    EXPECT_EQ(std::set<uint32_t>(cut.stageOf.begin(), cut.stageOf.end()).size(), 3u);
    EXPECT_FALSE(cut.isExact);
    EXPECT_LE(cut.lowerBound, whole.slowest());
    EXPECT_GE(cut.slowest(), whole.slowest());
    // One inside that wants nothing counts.
    CancellationScope never(nullptr);
    EXPECT_EQ(llvm::cantFail(cutStages(graph, request)).stageOf, whole.stageOf);
  }
  EXPECT_EQ(llvm::cantFail(cutStages(graph, request)).stageOf, whole.stageOf);
}

TEST(StageCutterLimits, FinishesOnALongChainWithSkips) {
  Dice dice(7);
  std::vector<double> seconds;
  for (uint32_t node = 0; node < 4000; ++node)
    seconds.push_back(1 + dice.below(1000));
  StageGraph graph = chain(seconds);
  for (uint32_t node = 0; node + 50 < 4000; node += 10)
    graph.values.push_back({node, dice.below(5000), {node + 5, node + 50}});
  for (double bytesPerSecond : {1e6, 1e-3}) {
    CutRequest request;
    request.stages.assign(64, {Link{/*latencySeconds=*/10, bytesPerSecond}});
    const StageCut cut = llvm::cantFail(cutStages(graph, request));
    EXPECT_EQ(cut.seconds.size(), 64u);
    EXPECT_GE(cut.slowest(), cut.lowerBound);
  }
}

/// A table of all nodes and stages would take 1.6 GB.
TEST(StageCutterLimits, CutsHundredThousandNodesInABoundedTable) {
  StageGraph graph;
  Dice dice(7);
  double total = 0;
  for (uint32_t node = 0; node < 100'000; ++node) {
    graph.nodes.push_back({"op" + std::to_string(node), double(1 + dice.below(8)), {}});
    total += graph.nodes.back().seconds;
    if (node > 0)
      graph.values.push_back({node - 1, 1, {node}});
  }
  CutRequest request;
  request.stages.assign(1000, {Link{0, 1e9}});
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  const StageCut cut = llvm::cantFail(cutStages(graph, request));
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(cut.slowest(), 1.1 * total / 1000);
  EXPECT_TRUE(std::is_sorted(cut.stageOf.begin(), cut.stageOf.end()));
  EXPECT_EQ(cut.stageOf.back(), 999u);
  // Kilobytes.
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 1 << 20);
}
