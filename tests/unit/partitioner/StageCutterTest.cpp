//===- StageCutterTest.cpp - The stage cutter against brute force ---------===//
#include "partitioner/StageCutter.h"

#include "RandomGraph.h"
#include "gtest/gtest.h"
#include <set>
#include <tuple>

using namespace cleave;

namespace {

/// What the documentation of StageCutter.h says about one cut, written down again without regard to speed.
struct Costs {
  std::vector<double> seconds;
  std::vector<int64_t> weightBytes, recvBytes;
};

/// A cut's rank among all: slowest stage, sum of squared seconds, stage starts.
using Rank = std::tuple<double, double, std::vector<uint32_t>>;

} // namespace

static Costs costsOf(const StageGraph &graph, const CutRequest &request,
                     const std::vector<uint32_t> &stageOf) {
  Costs costs;
  for (uint32_t stage = 0; stage < request.stages; ++stage) {
    double seconds = 0;
    std::set<uint32_t> weights, values;
    for (uint32_t node = 0; node < graph.nodes.size(); ++node)
      if (stageOf[node] == stage) {
        seconds += graph.nodes[node].seconds;
        weights.insert(graph.nodes[node].weights.begin(), graph.nodes[node].weights.end());
      }
    for (uint32_t value = 0; value < graph.values.size(); ++value)
      for (uint32_t consumer : graph.values[value].consumers)
        if (stageOf[consumer] == stage && stageOf[graph.values[value].producer] != stage)
          values.insert(value);
    int64_t held = 0, received = 0;
    for (uint32_t weight : weights)
      held += graph.weightBytes[weight];
    for (uint32_t value : values)
      received += graph.values[value].bytes;
    if (!values.empty())
      seconds += request.link.latencySeconds + received / request.link.bytesPerSecond;
    costs.seconds.push_back(seconds);
    costs.weightBytes.push_back(held);
    costs.recvBytes.push_back(received);
  }
  return costs;
}

static std::vector<uint32_t> startsOf(const std::vector<uint32_t> &stageOf) {
  std::vector<uint32_t> starts;
  for (uint32_t node = 0; node < stageOf.size(); ++node)
    if (node == 0 || stageOf[node] != stageOf[node - 1])
      starts.push_back(node);
  return starts;
}

/// Nothing where the cut breaks the weight limit or the fixed starts.
static std::optional<Rank> rankOf(const StageGraph &graph, const CutRequest &request,
                                  const std::vector<uint32_t> &stageOf) {
  const Costs costs = costsOf(graph, request, stageOf);
  const std::vector<uint32_t> starts = startsOf(stageOf);
  for (uint32_t start : request.stageStarts)
    if (!std::count(starts.begin(), starts.end(), start))
      return std::nullopt;
  double squares = 0, slowest = 0;
  for (uint32_t stage = 0; stage < request.stages; ++stage) {
    if (request.weightLimit && costs.weightBytes[stage] > *request.weightLimit)
      return std::nullopt;
    squares += costs.seconds[stage] * costs.seconds[stage];
    slowest = std::max(slowest, costs.seconds[stage]);
  }
  return Rank{slowest, squares, starts};
}

/// The best of all contiguous cuts into exactly that many stages.
static std::optional<Rank> bruteForce(const StageGraph &graph, const CutRequest &request) {
  const uint32_t nodes = graph.nodes.size();
  std::optional<Rank> best;
  // Bit i: a stage starts at node i + 1.
  for (uint32_t cuts = 0; cuts < 1u << (nodes - 1); ++cuts) {
    if (uint32_t(__builtin_popcount(cuts)) + 1 != request.stages)
      continue;
    std::vector<uint32_t> stageOf{0};
    for (uint32_t node = 1; node < nodes; ++node)
      stageOf.push_back(stageOf.back() + (cuts >> (node - 1) & 1));
    std::optional<Rank> rank = rankOf(graph, request, stageOf);
    if (rank && (!best || *rank < *best))
      best = rank;
  }
  return best;
}

TEST(StageCutter, EqualsBruteForce) {
  uint32_t cut = 0, refused = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const StageGraph graph = randomGraph(dice, 1 + dice.below(12));
    const CutRequest request = randomRequest(dice, graph);
    const std::optional<Rank> best = bruteForce(graph, request);
    llvm::Expected<StageCut> found = cutStages(graph, request);
    ASSERT_EQ(bool(found), best.has_value());
    if (!found) {
      llvm::consumeError(found.takeError());
      ++refused;
      continue;
    }
    ASSERT_EQ(rankOf(graph, request, found->stageOf), best);
    ++cut;
  }
  EXPECT_GT(cut, 300u);
  EXPECT_GT(refused, 300u);
}

TEST(StageCutter, ReportsWhatTheCutCosts) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const StageGraph graph = randomGraph(dice, 5 + dice.below(8));
    CutRequest request = randomRequest(dice, graph);
    request.weightLimit.reset();
    request.stageStarts.clear();
    const StageCut cut = llvm::cantFail(cutStages(graph, request));
    const Costs costs = costsOf(graph, request, cut.stageOf);
    EXPECT_EQ(cut.seconds, costs.seconds);
    EXPECT_EQ(cut.weightBytes, costs.weightBytes);
    EXPECT_EQ(cut.recvBytes, costs.recvBytes);
    EXPECT_LE(cut.mean(), cut.slowest());
  }
}

TEST(StageCutter, PlacesEveryNodeForward) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const StageGraph graph = randomGraph(dice, 5 + dice.below(40));
    CutRequest request;
    request.stages = 1 + dice.below(5);
    const StageCut cut = llvm::cantFail(cutStages(graph, request));
    ASSERT_EQ(cut.stageOf.size(), graph.nodes.size());
    EXPECT_TRUE(std::is_sorted(cut.stageOf.begin(), cut.stageOf.end()));
    EXPECT_EQ(startsOf(cut.stageOf).size(), request.stages);
    EXPECT_EQ(cut.stageOf.front(), 0u);
    EXPECT_EQ(cut.stageOf.back(), request.stages - 1);
    for (const StageGraph::Value &value : graph.values)
      for (uint32_t consumer : value.consumers)
        EXPECT_LE(cut.stageOf[value.producer], cut.stageOf[consumer]);
  }
}

TEST(StageCutter, BoundsHoldForEveryCut) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const StageGraph graph = randomGraph(dice, 5 + dice.below(8));
    CutRequest request = randomRequest(dice, graph);
    request.weightLimit.reset();
    request.stageStarts.clear();
    const StageCut cut = llvm::cantFail(cutStages(graph, request));
    double largest = 0, total = 0;
    for (const StageGraph::Node &node : graph.nodes) {
      largest = std::max(largest, node.seconds);
      total += node.seconds;
    }
    EXPECT_DOUBLE_EQ(cut.lowerBound, std::max(largest, total / request.stages));
    EXPECT_LE(cut.lowerBound, cut.slowest());
    ASSERT_EQ(cut.bottleneck.has_value(), largest > total / request.stages);
    if (cut.bottleneck) {
      EXPECT_EQ(graph.nodes[*cut.bottleneck].seconds, largest);
    }
  }
}

TEST(StageCutter, GivesTheSameAnswerTwice) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Dice dice(seed);
    const StageGraph graph = randomGraph(dice, 40);
    CutRequest request;
    request.stages = 4;
    EXPECT_EQ(llvm::cantFail(cutStages(graph, request)).stageOf,
              llvm::cantFail(cutStages(graph, request)).stageOf);
  }
}

/// Nodes of `seconds`, each feeding the next with one byte.
static StageGraph chain(const std::vector<double> &seconds) {
  StageGraph graph;
  for (uint32_t node = 0; node < seconds.size(); ++node) {
    graph.nodes.push_back({"op" + std::to_string(node), seconds[node], {}});
    if (node > 0)
      graph.values.push_back({node - 1, 1, {node}});
  }
  return graph;
}

TEST(StageCutter, CountsALatencyOnceAStage) {
  // Stage 2 hears from both stages before it.
  StageGraph graph = chain({4, 4, 4});
  graph.values.push_back({0, 3, {2}});
  CutRequest request;
  request.stages = 3;
  request.link = {/*latencySeconds=*/2, /*bytesPerSecond=*/1};
  const StageCut cut = llvm::cantFail(cutStages(graph, request));
  EXPECT_EQ(cut.seconds, (std::vector<double>{4, 4 + 2 + 1, 4 + 2 + 4}));
}

TEST(StageCutter, SharesTheRestEvenlyBesideALargeNode) {
  CutRequest request;
  request.stages = 4;
  const StageCut cut = llvm::cantFail(cutStages(chain({1, 1, 1, 1, 1, 1, 50}), request));
  EXPECT_EQ(cut.stageOf, (std::vector<uint32_t>{0, 0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(cut.bottleneck, 6u);
}

TEST(StageCutter, SendsAValueOnceAStage) {
  StageGraph graph = chain({4, 1, 1, 2});
  graph.values.assign({{0, 5, {1, 2, 3, 3}}});
  CutRequest request;
  request.stages = 2;
  EXPECT_EQ(llvm::cantFail(cutStages(graph, request)).recvBytes, (std::vector<int64_t>{0, 5}));
}

TEST(StageCutter, CountsATiedWeightOnceAStage) {
  StageGraph graph = chain({1, 1, 1, 1});
  graph.weightBytes = {10, 1};
  graph.nodes[0].weights = {0};
  graph.nodes[1].weights = {0, 1, 1};
  graph.nodes[3].weights = {0};
  CutRequest request;
  request.stages = 2;
  EXPECT_EQ(llvm::cantFail(cutStages(graph, request)).weightBytes, (std::vector<int64_t>{11, 10}));
}

TEST(StageCutter, RoundingMakesNoBottleneck) {
  // Ten times 0.1 is less than one.
  CutRequest request;
  request.stages = 10;
  const StageCut cut = llvm::cantFail(cutStages(chain(std::vector<double>(10, 0.1)), request));
  EXPECT_FALSE(cut.bottleneck);
  EXPECT_LE(cut.lowerBound, cut.slowest());
}

TEST(StageCutter, CutsNodesThatCostNothing) {
  StageGraph graph = chain({0, 0, 0, 0, 0});
  graph.values.clear();
  CutRequest request;
  request.stages = 3;
  const StageCut cut = llvm::cantFail(cutStages(graph, request));
  EXPECT_EQ(cut.stageOf, (std::vector<uint32_t>{0, 1, 2, 2, 2}));
  EXPECT_EQ(cut.slowest(), 0);
}

TEST(StageCutter, CutsWhereSendingDominates) {
  // Far beyond any multiple of the compute bound.
  CutRequest request;
  request.stages = 2;
  request.link = {/*latencySeconds=*/1e6, /*bytesPerSecond=*/1};
  EXPECT_EQ(llvm::cantFail(cutStages(chain({1, 1, 1, 1}), request)).seconds,
            (std::vector<double>{3, 1e6 + 2}));
}

TEST(StageCutter, FinishesOnALongChainWithSkips) {
  Dice dice(7);
  std::vector<double> seconds;
  for (uint32_t node = 0; node < 4000; ++node)
    seconds.push_back(1 + dice.below(1000));
  StageGraph graph = chain(seconds);
  for (uint32_t node = 0; node + 50 < 4000; node += 10)
    graph.values.push_back({node, dice.below(5000), {node + 5, node + 50}});
  for (double bytesPerSecond : {1e6, 1e-3}) {
    CutRequest request;
    request.stages = 64;
    request.link = {/*latencySeconds=*/10, bytesPerSecond};
    const StageCut cut = llvm::cantFail(cutStages(graph, request));
    EXPECT_EQ(cut.seconds.size(), 64u);
    EXPECT_GE(cut.slowest(), cut.lowerBound);
  }
}
