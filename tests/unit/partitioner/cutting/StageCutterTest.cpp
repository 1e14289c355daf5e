//===- StageCutterTest.cpp - The stage cutter against brute force ---------===//
#include "partitioner/cutting/StageCutter.h"

#include "tests/unit/partitioner/RandomGraph.h"
#include "gtest/gtest.h"
#include <cmath>
#include <set>
#include <tuple>

using namespace cleave;

namespace {

/// A cut's rank among those of program order: slowest stage, sum of squared seconds, where stages start, last
/// one first.
using Rank = std::tuple<double, double, std::vector<uint32_t>>;

/// What the documentation of StageCutter.h says about cuts, written down again: every cut is tried. A stage
/// is a set of bits, one a node.
class Oracle {
public:
  Oracle(const StageGraph &graph, const CutRequest &request);

  double seconds(uint32_t stage, uint32_t nodes) const;
  int64_t weightBytes(uint32_t nodes) const;
  int64_t recvBytes(uint32_t nodes) const;
  /// Slowest stage and sum of squares; nothing where the cut breaks a rule.
  std::optional<std::pair<double, double>> rankOf(const std::vector<uint32_t> &stageOf) const;
  /// Of all contiguous cuts into exactly that many stages.
  std::optional<std::pair<double, double>> best();
  std::optional<Rank> bestOfProgramOrder() const;

private:
  std::optional<std::pair<double, double>> rankOfStages(const std::vector<uint32_t> &stages) const;
  void tryAll(uint32_t node, std::vector<uint32_t> &stageOf, std::vector<uint32_t> &stages);

  const StageGraph &graph;
  const CutRequest &request;
  const uint32_t nodes;
  /// By node: nodes that it uses values of.
  std::vector<std::set<uint32_t>> uses;
  /// By set of nodes, for speed; `compute` by kind of device before that.
  std::vector<std::vector<double>> compute;
  std::vector<int64_t> weights, received;
  std::optional<std::pair<double, double>> found;
};

} // namespace

Oracle::Oracle(const StageGraph &graph, const CutRequest &request)
    : graph(graph), request(request), nodes(graph.nodes.size()), uses(nodes), compute(graph.kinds()) {
  for (const StageGraph::Value &value : graph.values)
    for (uint32_t consumer : value.consumers)
      uses[consumer].insert(value.producer);
  for (uint32_t set = 0; set < 1u << nodes; ++set) {
    for (uint32_t kind = 0; kind < graph.kinds(); ++kind) {
      double seconds = 0;
      for (uint32_t node = 0; node < nodes; ++node)
        seconds += set >> node & 1 ? graph.nodes[node].secondsOn(kind) : 0;
      compute[kind].push_back(seconds);
    }
    weights.push_back(weightBytes(set));
    received.push_back(recvBytes(set));
  }
}

int64_t Oracle::weightBytes(uint32_t set) const {
  std::set<uint32_t> held;
  int64_t bytes = 0;
  for (uint32_t node = 0; node < nodes; ++node)
    if (set >> node & 1)
      held.insert(graph.nodes[node].weights.begin(), graph.nodes[node].weights.end());
  for (uint32_t weight : held)
    bytes += graph.weightBytes[weight];
  return bytes;
}

int64_t Oracle::recvBytes(uint32_t set) const {
  int64_t bytes = 0;
  for (const StageGraph::Value &value : graph.values) {
    const bool isUsed = std::any_of(value.consumers.begin(), value.consumers.end(),
                                    [&](uint32_t consumer) { return set >> consumer & 1; });
    bytes += isUsed && !(set >> value.producer & 1) ? value.bytes : 0;
  }
  return bytes;
}

double Oracle::seconds(uint32_t stage, uint32_t set) const {
  const StageDevice &device = request.stages[stage];
  const double receiving = device.link.latencySeconds + received[set] / device.link.bytesPerSecond;
  return compute[device.kind][set] + (received[set] > 0 ? receiving : 0);
}

std::optional<std::pair<double, double>> Oracle::rankOfStages(const std::vector<uint32_t> &stages) const {
  double slowest = 0, squares = 0;
  for (uint32_t stage = 0; stage < stages.size(); ++stage) {
    if (stages[stage] == 0 || weights[stages[stage]] > request.stages[stage].weightLimit.value_or(INT64_MAX))
      return std::nullopt;
    const double own = seconds(stage, stages[stage]);
    slowest = std::max(slowest, own);
    squares += own * own;
  }
  // Everything before a start is in earlier stages than it, and nothing after it is.
  for (uint32_t start : request.stageStarts)
    for (uint32_t stage = 0, isBefore = 1; stage < stages.size() && start > 0; ++stage) {
      const uint32_t before = stages[stage] & ((1u << start) - 1);
      isBefore &= !(stages[stage] >> start & 1);
      if (isBefore ? before != stages[stage] : before != 0)
        return std::nullopt;
    }
  return std::pair(slowest, squares);
}

std::optional<std::pair<double, double>> Oracle::rankOf(const std::vector<uint32_t> &stageOf) const {
  std::vector<uint32_t> stages(request.stages.size(), 0);
  for (uint32_t node = 0; node < nodes; ++node) {
    stages[stageOf[node]] |= 1u << node;
    for (uint32_t used : uses[node])
      if (stageOf[used] > stageOf[node])
        return std::nullopt;
  }
  return rankOfStages(stages);
}

void Oracle::tryAll(uint32_t node, std::vector<uint32_t> &stageOf, std::vector<uint32_t> &stages) {
  if (node == nodes) {
    auto rank = rankOfStages(stages);
    if (rank && (!found || *rank < *found))
      found = rank;
    return;
  }
  uint32_t first = 0;
  for (uint32_t used : uses[node])
    first = std::max(first, stageOf[used]);
  for (stageOf[node] = first; stageOf[node] < stages.size(); ++stageOf[node]) {
    stages[stageOf[node]] |= 1u << node;
    tryAll(node + 1, stageOf, stages);
    stages[stageOf[node]] &= ~(1u << node);
  }
}

std::optional<std::pair<double, double>> Oracle::best() {
  std::vector<uint32_t> stageOf(nodes), stages(request.stages.size(), 0);
  tryAll(0, stageOf, stages);
  return found;
}

static std::vector<uint32_t> startsOf(const std::vector<uint32_t> &stageOf) {
  std::vector<uint32_t> starts;
  for (uint32_t node = 0; node < stageOf.size(); ++node)
    if (node == 0 || stageOf[node] != stageOf[node - 1])
      starts.push_back(node);
  return starts;
}

std::optional<Rank> Oracle::bestOfProgramOrder() const {
  std::optional<Rank> best;
  // Bit i: a stage starts at node i + 1.
  for (uint32_t cuts = 0; cuts < 1u << (nodes - 1); ++cuts) {
    if (uint32_t(__builtin_popcount(cuts)) + 1 != request.stages.size())
      continue;
    std::vector<uint32_t> stageOf{0};
    for (uint32_t node = 1; node < nodes; ++node)
      stageOf.push_back(stageOf.back() + (cuts >> (node - 1) & 1));
    const std::vector<uint32_t> starts = startsOf(stageOf);
    if (auto rank = rankOf(stageOf)) {
      Rank next{rank->first, rank->second, {starts.rbegin(), starts.rend()}};
      best = best ? std::min(*best, next) : next;
    }
  }
  return best;
}

static bool differInLimitsAlone(CutRequest request) {
  const StageDevice first = request.stages.front();
  bool areUnlike = false;
  for (StageDevice &stage : request.stages) {
    areUnlike |= stage.weightLimit != first.weightLimit;
    stage.weightLimit = first.weightLimit;
  }
  return areUnlike && llvm::all_of(request.stages, [&](const StageDevice &stage) { return stage == first; });
}

TEST(StageCutter, EqualsBruteForce) {
  uint32_t cut = 0, refused = 0, reordered = 0, unlikeInLimits = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    StageGraph graph = randomGraph(dice, 1 + dice.below(10));
    // Half of them have devices of one kind.
    if (seed % 2)
      addKinds(dice, graph);
    CutRequest request = randomRequest(dice, graph);
    while (std::pow(request.stages.size(), graph.nodes.size()) > 100000)
      request.stages.pop_back();
    Oracle oracle(graph, request);
    const auto best = oracle.best();
    llvm::Expected<StageCut> found = cutStages(graph, request);
    ASSERT_EQ(bool(found), best.has_value()) << (found ? "" : toString(found.takeError()));
    if (!found) {
      llvm::consumeError(found.takeError());
      ++refused;
      continue;
    }
    ++cut;
    unlikeInLimits += differInLimitsAlone(request);
    EXPECT_TRUE(found->isExact);
    const auto rank = oracle.rankOf(found->stageOf);
    ASSERT_TRUE(rank);
    const std::optional<Rank> linear = oracle.bestOfProgramOrder();
    if (linear && std::get<0>(*linear) == best->first) {
      // Nothing is gained by another order.
      std::vector<uint32_t> starts = startsOf(found->stageOf);
      ASSERT_EQ((Rank{rank->first, rank->second, {starts.rbegin(), starts.rend()}}), *linear);
    } else {
      ASSERT_EQ(rank, best);
      ++reordered;
    }
  }
  EXPECT_GT(cut, 600u);
  EXPECT_GT(refused, 300u);
  EXPECT_GT(reordered, 100u);
  EXPECT_GT(unlikeInLimits, 50u);
}

/// What a limit ends is still a cut, and its bound one for the best.
TEST(StageCutter, BoundsWhatItDoesNotProve) {
  uint32_t unproven = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    StageGraph graph = randomGraph(dice, 2 + dice.below(7));
    if (seed % 2)
      addKinds(dice, graph);
    CutRequest request = randomRequest(dice, graph);
    while (std::pow(request.stages.size(), graph.nodes.size()) > 100000)
      request.stages.pop_back();
    Oracle oracle(graph, request);
    const auto best = oracle.best();
    for (const SearchLimits &limits :
         {SearchLimits{1, 1000}, SearchLimits{12, 1000}, SearchLimits{1000, 50}}) {
      request.limits = limits;
      llvm::Expected<StageCut> found = cutStages(graph, request);
      if (!found) {
        // Program order may miss what fits.
        llvm::consumeError(found.takeError());
        continue;
      }
      ASSERT_TRUE(best);
      ASSERT_TRUE(oracle.rankOf(found->stageOf));
      EXPECT_LE(found->lowerBound, best->first);
      EXPECT_GE(found->slowest(), best->first);
      EXPECT_TRUE(!found->isExact || found->slowest() == best->first);
      unproven += !found->isExact;
    }
  }
  EXPECT_GT(unproven, 200u);
}

TEST(StageCutter, ReportsWhatTheCutCosts) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    StageGraph graph = randomGraph(dice, 5 + dice.below(8));
    if (seed % 2)
      addKinds(dice, graph);
    CutRequest request = randomRequest(dice, graph);
    for (StageDevice &stage : request.stages)
      stage.weightLimit.reset();
    request.stageStarts.clear();
    const StageCut cut = llvm::cantFail(cutStages(graph, request));
    const Oracle oracle(graph, request);
    for (uint32_t stage = 0; stage < request.stages.size(); ++stage) {
      uint32_t nodes = 0;
      for (uint32_t node = 0; node < graph.nodes.size(); ++node)
        nodes |= (cut.stageOf[node] == stage) << node;
      EXPECT_EQ(cut.seconds[stage], oracle.seconds(stage, nodes));
      EXPECT_EQ(cut.weightBytes[stage], oracle.weightBytes(nodes));
      EXPECT_EQ(cut.recvBytes[stage], oracle.recvBytes(nodes));
    }
    EXPECT_LE(cut.mean(), cut.slowest());
  }
}

TEST(StageCutter, PlacesEveryNodeForward) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const StageGraph graph = randomGraph(dice, 5 + dice.below(40));
    CutRequest request;
    request.stages.resize(1 + dice.below(5));
    request.limits = {/*downsets=*/2000, /*work=*/1000000};
    const StageCut cut = llvm::cantFail(cutStages(graph, request));
    ASSERT_EQ(cut.stageOf.size(), graph.nodes.size());
    EXPECT_EQ(std::set<uint32_t>(cut.stageOf.begin(), cut.stageOf.end()).size(), request.stages.size());
    EXPECT_LT(*std::max_element(cut.stageOf.begin(), cut.stageOf.end()), request.stages.size());
    for (const StageGraph::Value &value : graph.values)
      for (uint32_t consumer : value.consumers)
        EXPECT_LE(cut.stageOf[value.producer], cut.stageOf[consumer]);
    double largest = 0, total = 0;
    for (const StageGraph::Node &node : graph.nodes) {
      largest = std::max(largest, node.seconds);
      total += node.seconds;
    }
    EXPECT_GE(cut.lowerBound * (1 + 1e-9), std::max(largest, total / request.stages.size()));
    EXPECT_LE(cut.lowerBound, cut.slowest());
    ASSERT_EQ(cut.bottleneck.has_value(), largest > total / request.stages.size());
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
    request.stages.resize(4);
    request.limits = {/*downsets=*/2000, /*work=*/1000000};
    EXPECT_EQ(llvm::cantFail(cutStages(graph, request)).stageOf,
              llvm::cantFail(cutStages(graph, request)).stageOf);
  }
}

TEST(StageCutter, LeavesProgramOrderWhereThatIsFaster) {
  // Two chains side by side, one after the other in program order, where one stage has 7 seconds at least.
  StageGraph graph = chain({3, 1, 1, 3, 2, 2});
  graph.values = {{0, 1, {1}}, {1, 1, {2}}, {3, 1, {4}}, {4, 1, {5}}};
  CutRequest request;
  request.stages.resize(2);
  request.stages[1].link.bytesPerSecond = 1e9;
  const StageCut cut = llvm::cantFail(cutStages(graph, request));
  EXPECT_NEAR(cut.slowest(), 6, 1e-6);
  EXPECT_EQ(cut.stageOf, (std::vector<uint32_t>{0, 1, 1, 0, 1, 1}));
  EXPECT_TRUE(cut.isExact);
  EXPECT_EQ(cut.lowerBound, cut.slowest());
  EXPECT_EQ(cut.describe(request.limits), "exact: 16 downsets");
  // A stage that begins at a node has what precedes that in program order before it.
  request.stageStarts = {3};
  EXPECT_EQ(llvm::cantFail(cutStages(graph, request)).stageOf, (std::vector<uint32_t>{0, 0, 0, 1, 1, 1}));
}

TEST(StageCutter, GivesSlowDevicesLess) {
  CutRequest request;
  request.stages.resize(2);
  request.stages[0].kind = 1;
  StageGraph graph = chain({1, 1, 1, 1});
  for (StageGraph::Node &node : graph.nodes)
    node.onOtherKinds = {3};
  const StageCut cut = llvm::cantFail(cutStages(graph, request));
  EXPECT_EQ(cut.stageOf, (std::vector<uint32_t>{0, 1, 1, 1}));
  EXPECT_EQ(cut.seconds, (std::vector<double>{3, 4}));
}

/// One device is fast at the first half, the other at the second: no factor says that.
TEST(StageCutter, GivesDevicesWhatTheyAreFastAt) {
  CutRequest request;
  request.stages.resize(2);
  request.stages[1].kind = 1;
  StageGraph graph = chain({1, 1, 1, 1, 9, 9});
  graph.values.clear();
  for (uint32_t node = 0; node < 6; ++node)
    graph.nodes[node].onOtherKinds = {node < 4 ? 9.0 : 1.0};
  const StageCut cut = llvm::cantFail(cutStages(graph, request));
  EXPECT_EQ(cut.stageOf, (std::vector<uint32_t>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(cut.seconds, (std::vector<double>{4, 2}));
  EXPECT_TRUE(cut.isExact);
  EXPECT_FALSE(cut.bottleneck);
}

/// A node that takes long on one kind of device only is none that makes balance impossible.
TEST(StageCutter, FindsNoBottleneckThatOneDeviceIsFastAt) {
  CutRequest request;
  request.stages.resize(2);
  request.stages[1].kind = 1;
  StageGraph graph = chain({2, 1, 30});
  for (auto [node, seconds] : llvm::zip(graph.nodes, std::vector<double>{2, 1, 3}))
    node.onOtherKinds = {seconds};
  EXPECT_FALSE(llvm::cantFail(cutStages(graph, request)).bottleneck);
  request.stages[1].kind = 0;
  EXPECT_EQ(llvm::cantFail(cutStages(graph, request)).bottleneck, 2u);
}

TEST(StageCutter, GivesLittleToWhatASlowLinkKeepsBusy) {
  CutRequest request;
  request.stages.resize(3);
  request.stages[1].link.bytesPerSecond = 0.25;
  const StageCut cut = llvm::cantFail(cutStages(chain({1, 1, 1, 1, 1, 1}), request));
  EXPECT_EQ(cut.stageOf, (std::vector<uint32_t>{0, 0, 0, 1, 2, 2}));
  EXPECT_EQ(cut.seconds, (std::vector<double>{3, 1 + 4, 2 + 1}));
}

TEST(StageCutter, CountsALatencyOnceAStage) {
  // Stage 2 hears from both stages before it.
  StageGraph graph = chain({4, 4, 4});
  graph.values.push_back({0, 3, {2}});
  CutRequest request;
  request.stages.assign(3, {Link{/*latencySeconds=*/2, /*bytesPerSecond=*/1}});
  const StageCut cut = llvm::cantFail(cutStages(graph, request));
  EXPECT_EQ(cut.seconds, (std::vector<double>{4, 4 + 2 + 1, 4 + 2 + 4}));
}

TEST(StageCutter, SharesTheRestEvenlyBesideALargeNode) {
  CutRequest request;
  request.stages.resize(4);
  const StageCut cut = llvm::cantFail(cutStages(chain({1, 1, 1, 1, 1, 1, 50}), request));
  EXPECT_EQ(cut.stageOf, (std::vector<uint32_t>{0, 0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(cut.bottleneck, 6u);
}

TEST(StageCutter, SendsAValueOnceAStage) {
  StageGraph graph = chain({4, 1, 1, 2});
  graph.values.assign({{0, 5, {1, 2, 3, 3}}});
  CutRequest request;
  request.stages.resize(2);
  EXPECT_EQ(llvm::cantFail(cutStages(graph, request)).recvBytes, (std::vector<int64_t>{0, 5}));
}

TEST(StageCutter, CountsATiedWeightOnceAStage) {
  StageGraph graph = chain({1, 1, 1, 1});
  graph.weightBytes = {10, 1};
  graph.nodes[0].weights = {0};
  graph.nodes[1].weights = {0, 1, 1};
  graph.nodes[3].weights = {0};
  CutRequest request;
  request.stages.resize(2);
  EXPECT_EQ(llvm::cantFail(cutStages(graph, request)).weightBytes, (std::vector<int64_t>{11, 10}));
}

TEST(StageCutter, RoundingMakesNoBottleneck) {
  // Ten times 0.1 is less than one.
  CutRequest request;
  request.stages.resize(10);
  const StageCut cut = llvm::cantFail(cutStages(chain(std::vector<double>(10, 0.1)), request));
  EXPECT_FALSE(cut.bottleneck);
  EXPECT_LE(cut.lowerBound, cut.slowest());
}

TEST(StageCutter, CutsNodesThatCostNothing) {
  StageGraph graph = chain({0, 0, 0, 0, 0});
  graph.values.clear();
  CutRequest request;
  request.stages.resize(3);
  const StageCut cut = llvm::cantFail(cutStages(graph, request));
  EXPECT_EQ(cut.stageOf, (std::vector<uint32_t>{0, 1, 2, 2, 2}));
  EXPECT_EQ(cut.slowest(), 0);
}

TEST(StageCutter, CutsWhereSendingDominates) {
  // Far beyond any multiple of the compute bound.
  CutRequest request;
  request.stages.assign(2, {Link{/*latencySeconds=*/1e6, /*bytesPerSecond=*/1}});
  EXPECT_EQ(llvm::cantFail(cutStages(chain({1, 1, 1, 1}), request)).seconds,
            (std::vector<double>{3, 1e6 + 2}));
}
