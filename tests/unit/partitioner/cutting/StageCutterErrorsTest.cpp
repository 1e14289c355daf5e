//===- StageCutterErrorsTest.cpp - What cannot be cut, and why ------------===//
#include "partitioner/cutting/StageCutter.h"

#include "tests/unit/partitioner/RandomGraph.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"
#include <set>

using namespace cleave;

/// A chain of `nodes` nodes of one second, each with a weight of its own: 10 bytes, but 30 for node 1.
static StageGraph weighted(uint32_t nodes) {
  StageGraph graph;
  for (uint32_t node = 0; node < nodes; ++node) {
    graph.nodes.push_back({"aten.linear at layer." + std::to_string(node), 1, {node}});
    graph.weightBytes.push_back(node == 1 ? 30 : 10);
    if (node > 0)
      graph.values.push_back({node - 1, 1, {node}});
  }
  return graph;
}

static void limitWeights(CutRequest &request, int64_t bytes) {
  for (StageDevice &stage : request.stages)
    stage.weightLimit = bytes;
}

static std::string messageOf(const StageGraph &graph, const CutRequest &request) {
  llvm::Expected<StageCut> cut = cutStages(graph, request);
  return cut ? "no error" : llvm::toString(cut.takeError());
}

TEST(StageCutterErrors, RefusesMoreStagesThanNodes) {
  CutRequest request;
  request.stages.resize(4);
  EXPECT_EQ(messageOf(weighted(3), request),
            "stage cut: 3 operators do not fill 4 stages; use --mesh pp=3 or fewer");
  EXPECT_EQ(messageOf(weighted(1), request), "stage cut: 1 operator does not fill 4 stages; use --mesh pp=1");
}

TEST(StageCutterErrors, AdvisesFewerStagesOfARank) {
  CutRequest request;
  auto adviceFor = [&](uint32_t nodes, uint32_t ranks, uint32_t stagesPerRank) {
    request.stages.resize(ranks * stagesPerRank);
    request.stagesPerRank = stagesPerRank;
    return llvm::StringRef(messageOf(weighted(nodes), request)).split("; use ").second.str();
  };
  EXPECT_EQ(adviceFor(7, 2, 9), "--interleave 3 or less");
  EXPECT_EQ(adviceFor(7, 2, 3), "");
  EXPECT_EQ(adviceFor(5, 2, 3), "--interleave 2");
  EXPECT_EQ(adviceFor(3, 2, 2), "--schedule gpipe without --interleave");
  EXPECT_EQ(adviceFor(5, 8, 2), "--mesh pp=2 or fewer");
  EXPECT_EQ(adviceFor(2, 3, 4), "--mesh pp=2 and --schedule gpipe without --interleave");
}

TEST(StageCutterErrors, RefusesNothing) {
  CutRequest request;
  EXPECT_EQ(messageOf(StageGraph(), request),
            "stage cut: 0 operators and 1 stages, at least one of each is needed; "
            "a model without operators needs no plan");
  request.stages.resize(0);
  EXPECT_EQ(messageOf(weighted(2), request),
            "stage cut: 2 operators and 0 stages, at least one of each is needed; use --mesh pp=1 or more");
}

TEST(StageCutterErrors, RefusesMoreFixedStartsThanStages) {
  CutRequest request;
  request.stages.resize(2);
  request.stageStarts = {1, 3};
  EXPECT_EQ(messageOf(weighted(5), request),
            "stage cut: the --stage-before options make 3 stages, 2 were asked for; "
            "use --mesh pp=3 or more, or fewer --stage-before");
}

TEST(StageCutterErrors, TakesAFixedStartAtTheFirstNodeForGranted) {
  CutRequest request;
  request.stages.resize(2);
  request.stageStarts = {0, 1};
  EXPECT_EQ(llvm::cantFail(cutStages(weighted(3), request)).stageOf, (std::vector<uint32_t>{0, 1, 1}));
}

TEST(StageCutterErrors, SaysTheLeastWeightLimitThatWouldDo) {
  CutRequest request;
  request.stages.resize(2);
  limitWeights(request, 30);
  // 10, 30, 10, 10: at 30 bytes three stages, in two stages 40 and 20.
  EXPECT_EQ(messageOf(weighted(4), request),
            "stage cut: no cut into 2 stages holds at most 30 bytes of weights each; "
            "use --mesh pp=3 or more, or devices with memory for 40 bytes of weights");
  request.stages.resize(3, request.stages.front());
  EXPECT_EQ(messageOf(weighted(4), request), "no error");
  request.stages.resize(2);
  limitWeights(request, 40);
  EXPECT_EQ(messageOf(weighted(4), request), "no error");
}

TEST(StageCutterErrors, NamesTheNodeThatIsTooHeavy) {
  CutRequest request;
  request.stages.resize(2);
  limitWeights(request, 29);
  EXPECT_EQ(messageOf(weighted(4), request),
            "aten.linear at layer.1: reads 30 bytes of weights, a stage may hold 29; "
            "use devices with memory for 40 bytes of weights");
}

TEST(StageCutterErrors, CountsFixedStartsInTheWeightLimit) {
  CutRequest request;
  request.stages.resize(3);
  limitWeights(request, 30);
  request.stageStarts = {3};
  // 10, 30, 10, 10: node 3 stands alone, so node 2 takes a stage of its own as well.
  EXPECT_EQ(messageOf(weighted(4), request),
            "stage cut: no cut into 3 stages holds at most 30 bytes of weights each; "
            "use --mesh pp=4 or more, or devices with memory for 40 bytes of weights");
}

TEST(StageCutterErrors, SaysThatUnequalDevicesAreTooSmall) {
  CutRequest request;
  request.stages.resize(2);
  request.stages[0].weightLimit = 10;
  request.stages[1].weightLimit = 40;
  EXPECT_EQ(
      messageOf(weighted(4), request),
      "stage cut: no cut into 2 stages holds at most 10 bytes of weights in stage 0, which may hold least, "
      "40 in stage 1, which may hold most; use devices with memory for 40 bytes of weights where they have "
      "less");
  request.stages[1].weightLimit = 50;
  EXPECT_EQ(messageOf(weighted(4), request), "no error");
}

TEST(StageCutterErrors, CountsWhatLargerDevicesHaveInTheLeast) {
  CutRequest request;
  request.stages.resize(3);
  request.stages[0].weightLimit = 1000;
  request.stages[1].weightLimit = 5;
  request.stages[2].weightLimit = 7;
  // 10, 30, 10, 10: the first device may have 40 or more, the others have to have 10 each.
  EXPECT_EQ(
      messageOf(weighted(4), request),
      "stage cut: no cut into 3 stages holds at most 5 bytes of weights in stage 1, which may hold least, "
      "1000 in stage 0, which may hold most; use devices with memory for 10 bytes of weights where they have "
      "less");
  request.stages[0].weightLimit.reset();
  EXPECT_EQ(
      messageOf(weighted(4), request),
      "stage cut: no cut into 3 stages holds at most 5 bytes of weights in stage 1, which may hold least, "
      "any number in stage 0, which may hold most; use devices with memory for 10 bytes of weights where "
      "they have less");
  request.stages[1].weightLimit = request.stages[2].weightLimit = 10;
  EXPECT_EQ(messageOf(weighted(4), request), "no error");
}

/// Whether an interval of program order for each stage fits, by trying all.
static bool fitsInOrder(const StageGraph &graph, const CutRequest &request, uint32_t start = 0,
                        uint32_t stage = 0) {
  const uint32_t nodes = graph.nodes.size(), stages = request.stages.size();
  if (stage == stages || start == nodes)
    return stage == stages && start == nodes;
  std::set<uint32_t> held;
  int64_t bytes = 0;
  for (uint32_t end = start + 1; end <= nodes; ++end) {
    for (uint32_t weight : graph.nodes[end - 1].weights)
      bytes += held.insert(weight).second ? graph.weightBytes[weight] : 0;
    const bool passesStart =
        llvm::any_of(request.stageStarts, [&](uint32_t at) { return start < at && at < end; });
    if (bytes > *request.stages[stage].weightLimit || passesStart)
      return false;
    if (fitsInOrder(graph, request, end, stage + 1))
      return true;
  }
  return false;
}

TEST(StageCutterErrors, SaysTheLeastThatUnequalDevicesNeed) {
  uint32_t refused = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const StageGraph graph = randomGraph(dice, 2 + dice.below(8));
    CutRequest request = randomRequest(dice, graph);
    for (StageDevice &stage : request.stages)
      stage.weightLimit = dice.below(12);
    const std::string message = messageOf(graph, request);
    int64_t least = 0;
    if (llvm::StringRef(message).rsplit("memory for ").second.split(" bytes").first.getAsInteger(10, least))
      continue;
    ++refused;
    const CutRequest before = request;
    auto giveEach = [&](int64_t bytes) {
      for (size_t stage = 0; stage < before.stages.size(); ++stage)
        request.stages[stage].weightLimit = std::max(*before.stages[stage].weightLimit, bytes);
    };
    giveEach(least);
    EXPECT_EQ(messageOf(graph, request), "no error");
    EXPECT_TRUE(fitsInOrder(graph, request));
    giveEach(least - 1);
    EXPECT_FALSE(fitsInOrder(graph, request));
  }
  EXPECT_GT(refused, 300u);
}

TEST(StageCutterErrors, SaysWhatWasNotTried) {
  StageGraph graph = weighted(4);
  graph.values.clear();
  CutRequest request;
  request.stages.resize(2);
  limitWeights(request, 30);
  // Beside node 1 there is room for the others, but not along program order.
  EXPECT_EQ(messageOf(graph, request), "no error");
  request.limits.downsets = 1;
  EXPECT_EQ(messageOf(graph, request),
            "stage cut: no cut into 2 stages that was tried holds at most 30 bytes of weights each; "
            "use --mesh pp=3 or more, or devices with memory for 40 bytes of weights");
}
