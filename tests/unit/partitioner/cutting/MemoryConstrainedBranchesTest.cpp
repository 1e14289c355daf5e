//===- MemoryConstrainedBranchesTest.cpp - Cuts with little memory, of any graph -===//
// Against all contiguous cuts: not only those along program order.
#include "partitioner/cutting/MemoryConstrainedCutter.h"
#include "tests/unit/partitioner/RandomGraph.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"
#include <gtest/gtest.h>
#include <limits>

using namespace cleave;

namespace {
/// A graph of any shape. A stage holds each of its weights once, and beside them what lives while one of its
/// nodes runs and the values that come from stages before or go to others.
struct Branches : CutMemory {
  /// \param beside  of each node, while it runs.
  Branches(StageGraph graph, std::vector<int64_t> beside) : beside(std::move(beside)) {
    model.graph = std::move(graph);
  }

  std::vector<RankMemory> of(const ModelGraph &, llvm::ArrayRef<uint32_t> stageOf,
                             uint32_t ranks) const override {
    const uint32_t stages = 1 + *llvm::max_element(stageOf);
    std::vector<RankMemory> held(ranks);
    for (uint32_t stage = 0; stage < stages; ++stage) {
      const RankMemory own = ofStage(stageOf, stage);
      held[stage % ranks].weights += own.weights;
      held[stage % ranks].activations = std::max(held[stage % ranks].activations, own.activations);
    }
    return held;
  }
  int64_t lowerBound(const ModelGraph &, MemoryBudgetsRef budgets) const override {
    int64_t most = 0;
    for (auto [node, others] : llvm::zip(model.graph.nodes, beside)) {
      int64_t bytes = others;
      for (uint32_t weight : node.weights)
        bytes += model.graph.weightBytes[weight];
      most = std::max(most, bytes);
    }
    return llvm::any_of(budgets, [&](const auto &room) { return !room || *room >= most; }) ? 0 : most;
  }

  MemoryConstrainedCutter fitting(uint32_t stages, MemoryBudgets budgets) const {
    CutRequest request;
    request.stages.assign(stages, StageDevice{Link{0, 1e9}});
    return {model, request, std::move(budgets), *this, cuts};
  }
  bool isContiguous(llvm::ArrayRef<uint32_t> stageOf, uint32_t stages) const {
    return isForward(stageOf) && llvm::all_of(llvm::seq(stages), [&](uint32_t stage) {
             return llvm::is_contained(stageOf, stage);
           });
  }
  /// Of all contiguous cuts, whatever their order, the least that the fullest rank holds.
  int64_t leastOfAll(uint32_t stages, uint32_t ranks) const {
    std::vector<uint32_t> stageOf(beside.size(), 0);
    int64_t best = std::numeric_limits<int64_t>::max();
    // Counts up, the first node's stage first.
    for (bool isLast = false; !isLast;) {
      if (isContiguous(stageOf, stages)) {
        int64_t most = 0;
        for (const RankMemory &rank : of(model, stageOf, ranks))
          most = std::max(most, rank.bytes());
        best = std::min(best, most);
      }
      isLast = llvm::all_of(stageOf, [&](uint32_t &stage) { return (stage = (stage + 1) % stages) == 0; });
    }
    return best;
  }

  ModelGraph model;
  mutable CutCache cuts;
  std::vector<int64_t> beside;

private:
  bool isForward(llvm::ArrayRef<uint32_t> stageOf) const {
    return llvm::all_of(model.graph.values, [&](const StageGraph::Value &value) {
      return llvm::all_of(value.consumers,
                          [&](uint32_t to) { return stageOf[value.producer] <= stageOf[to]; });
    });
  }
  RankMemory ofStage(llvm::ArrayRef<uint32_t> stageOf, uint32_t stage) const {
    RankMemory held;
    llvm::SmallSet<uint32_t, 8> weights;
    for (auto [node, known] : llvm::enumerate(model.graph.nodes))
      if (stageOf[node] == stage) {
        held.activations = std::max(held.activations, beside[node]);
        for (uint32_t weight : known.weights)
          if (weights.insert(weight).second)
            held.weights += model.graph.weightBytes[weight];
      }
    for (const StageGraph::Value &value : model.graph.values) {
      auto isElsewhere = [&](uint32_t to) { return stageOf[to] != stageOf[value.producer]; };
      auto isHere = [&](uint32_t to) { return stageOf[to] == stage; };
      if (llvm::any_of(value.consumers, isElsewhere) &&
          (stageOf[value.producer] == stage || llvm::any_of(value.consumers, isHere)))
        held.activations += value.bytes;
    }
    return held;
  }
};

/// Two towers of so many nodes between a first and a last one, side by side in program order. Each tower has
/// a weight of 100 bytes that all its nodes read.
StageGraph towers(uint32_t height) {
  StageGraph graph;
  graph.weightBytes = {100, 100};
  const uint32_t last = 2 * height + 1;
  graph.nodes.push_back({"first", 1, {}});
  graph.values.push_back({0, 1, {1, 2}});
  for (uint32_t node = 1; node < last; ++node) {
    graph.nodes.push_back({"tower", 1, {node % 2}});
    graph.values.push_back({node, 1, {std::min(node + 2, last)}});
  }
  graph.nodes.push_back({"last", 1, {}});
  return graph;
}
} // namespace

// Along program order some stage has both.
TEST(CutFittingBranches, GivesEachTowerADevice) {
  const Branches branches(towers(3), std::vector<int64_t>(8, 5));
  EXPECT_LT(branches.leastOfAll(2, 2), 120);
  EXPECT_FALSE(branches.fitting(2, MemoryBudgets(2, 150)).fit().cut);
  const auto least = branches.fitting(2, MemoryBudgets(2, 1)).minBudget();
  ASSERT_TRUE(least);
  EXPECT_EQ(least->bytes, branches.leastOfAll(2, 2));
  const std::vector<uint32_t> &stageOf = least->fitted.cut->stageOf;
  for (uint32_t node : {3u, 5u})
    EXPECT_EQ(stageOf[node], stageOf[1]);
  for (uint32_t node : {4u, 6u})
    EXPECT_EQ(stageOf[node], stageOf[2]);
}

// A value that goes past a stage is no burden to it.
TEST(CutFittingBranches, SkipsBurdenThoseTheyReach) {
  StageGraph graph = chain({1, 1, 1});
  graph.weightBytes = {10, 40, 10};
  for (uint32_t node = 0; node < 3; ++node)
    graph.nodes[node].weights = {node};
  graph.values.push_back({0, 30, {2}});
  const Branches branches(graph, {0, 0, 0});
  const auto fitted = branches.fitting(3, MemoryBudgets(3, 42)).fit();
  ASSERT_TRUE(fitted.cut);
  EXPECT_EQ(fitted.cut->stageOf, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_FALSE(branches.fitting(3, MemoryBudgets(3, 41)).fit().cut);
  EXPECT_EQ(branches.fitting(3, MemoryBudgets(3, 1)).minBudget()->bytes, 42);
}

// As MemoryConstrainedCutter.KeepsToItsRoomAndKnowsHowMuchIsEnough, with branches, skips and weights that
// nodes share.
TEST(CutFittingBranches, KeepToTheirRoomAndAreNearTheLeast) {
  int asked = 0, best = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const uint32_t nodes = 5 + dice.below(4), ranks = 2 + dice.below(2),
                   stages = ranks == 2 && dice.below(2) ? 4 : ranks;
    std::vector<int64_t> beside;
    for (uint32_t node = 0; node < nodes; ++node)
      beside.push_back(dice.below(dice.below(4) == 0 ? 20 : 4));
    StageGraph graph = randomGraph(dice, nodes);
    for (uint32_t node = 0; node < nodes; ++node) {
      graph.nodes[node].weights.push_back(graph.weightBytes.size());
      graph.weightBytes.push_back(10 * (1 + dice.below(10)));
    }
    const Branches branches(std::move(graph), beside);
    const int64_t least = branches.leastOfAll(stages, ranks);
    auto check = [&](const StageCut &cut, int64_t room) {
      EXPECT_GE(room, least);
      EXPECT_TRUE(branches.isContiguous(cut.stageOf, stages));
      EXPECT_TRUE(mayFit(branches, branches.model, MemoryBudgets(ranks, room)));
      EXPECT_FALSE(shortageOf(branches.of(branches.model, cut.stageOf, ranks), MemoryBudgets(ranks, room)));
    };
    for (int64_t room : {least / 2, least - 1, least, least + least / 8, 2 * least})
      if (const auto fitted = branches.fitting(stages, MemoryBudgets(ranks, room)).fit(); fitted.cut)
        check(*fitted.cut, room);
    const auto enough = branches.fitting(stages, MemoryBudgets(ranks, 0)).minBudget();
    ASSERT_TRUE(enough);
    check(*enough->fitted.cut, enough->bytes);
    ++asked;
    best += enough->bytes == least;
    EXPECT_LE(enough->bytes, least + least / 2);
  }
  EXPECT_GE(best, asked / 3);
}
