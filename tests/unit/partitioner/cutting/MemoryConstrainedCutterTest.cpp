//===- MemoryConstrainedCutterTest.cpp - Cuts for devices with little memory -----------===//
#include "partitioner/cutting/MemoryConstrainedCutter.h"
#include "tests/unit/partitioner/RandomGraph.h"
#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>
#include <limits>

using namespace cleave;

namespace {
/// A chain of nodes, each with a weight of its own, and bytes that live beside weights while it runs.
struct Chain : CutMemory {
  Chain(const std::vector<int64_t> &weights, const std::vector<int64_t> &beside) : beside(beside) {
    for (uint32_t node = 0; node < weights.size(); ++node) {
      model.graph.nodes.push_back({"node", 1, {node}});
      model.graph.weightBytes.push_back(weights[node]);
      if (node > 0)
        model.graph.values.push_back({node - 1, 1, {node}});
    }
  }

  std::vector<RankMemory> of(const ModelGraph &, llvm::ArrayRef<uint32_t> stageOf,
                             uint32_t ranks) const override {
    ++asked;
    std::vector<RankMemory> held(ranks);
    for (auto [node, stage] : llvm::enumerate(stageOf)) {
      RankMemory &rank = held[stage % ranks];
      rank.weights += model.graph.weightBytes[node];
      rank.activations = std::max(rank.activations, beside[node]);
    }
    return held;
  }
  int64_t lowerBound(const ModelGraph &, MemoryBudgetsRef budgets) const override {
    int64_t most = 0;
    for (auto [weight, others] : llvm::zip(model.graph.weightBytes, beside))
      most = std::max(most, weight + others);
    return llvm::any_of(budgets, [&](const auto &room) { return !room || *room >= most; }) ? 0 : most;
  }

  MemoryConstrainedCutter fitting(uint32_t stages, MemoryBudgets budgets) const {
    CutRequest request;
    request.stages.assign(stages, StageDevice{Link{0, 1e9}});
    return {model, request, std::move(budgets), *this, cuts};
  }
  const StageCut *fit(uint32_t stages, MemoryBudgets budgets) const {
    return fitting(stages, std::move(budgets)).fit().cut;
  }
  /// Of all cuts into intervals: what those ranks hold that have no more than the least room, where all
  /// others have enough.
  int64_t leastOfAll(uint32_t stages, const MemoryBudgets &budgets) const {
    const uint32_t ranks = budgets.size();
    std::vector<uint32_t> stageOf(beside.size());
    int64_t smallest = std::numeric_limits<int64_t>::max();
    for (const auto &room : budgets)
      smallest = std::min(smallest, room.value_or(smallest));
    auto heldOf = [&] {
      int64_t most = 0;
      const std::vector<RankMemory> held = of(model, stageOf, ranks);
      for (uint32_t rank = 0; rank < ranks; ++rank)
        if (budgets[rank] && (*budgets[rank] == smallest || held[rank].bytes() > *budgets[rank]))
          most = std::max(most, held[rank].bytes());
      return most;
    };
    int64_t best = std::numeric_limits<int64_t>::max();
    auto extend = [&](auto &self, size_t node, uint32_t stage) -> void {
      if (node == stageOf.size()) {
        if (stage + 1 == stages)
          best = std::min(best, heldOf());
        return;
      }
      for (uint32_t next : {stage, stage + 1})
        if (next < stages) {
          stageOf[node] = next;
          self(self, node + 1, next);
        }
    };
    stageOf[0] = 0;
    extend(extend, 1, 0);
    return best;
  }

  ModelGraph model;
  mutable CutCache cuts;
  std::vector<int64_t> beside;
  mutable int asked = 0;
};
} // namespace

TEST(MemoryConstrainedCutter, TakesTheFastestWhereItHasRoom) {
  const Chain chain(std::vector<int64_t>(8, 10), std::vector<int64_t>(8, 5));
  const auto fitted = chain.fit(4, MemoryBudgets(4, 25));
  ASSERT_TRUE(fitted);
  EXPECT_EQ(fitted->stageOf, (std::vector<uint32_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(chain.asked, 1);
}

// What the last operation holds beside weights leaves room for two of them.
TEST(MemoryConstrainedCutter, LeavesRoomForWhatIsBesideWeightsInFewCuts) {
  std::vector<int64_t> beside(64, 5);
  beside.back() = 200;
  const Chain chain(std::vector<int64_t>(64, 10), beside);
  const auto fitted = chain.fit(4, MemoryBudgets(4, 220));
  ASSERT_TRUE(fitted);
  EXPECT_EQ(llvm::count(fitted->stageOf, 3u), 2);
  EXPECT_LE(chain.asked, 3);
  EXPECT_FALSE(chain.fit(4, MemoryBudgets(4, 209)));
}

TEST(MemoryConstrainedCutter, GivesEachRankWhatItHasRoomFor) {
  const Chain chain(std::vector<int64_t>(8, 10), std::vector<int64_t>(8, 5));
  // Even parts are of four.
  for (const MemoryBudgets &budgets : {MemoryBudgets{25, 65}, MemoryBudgets{25, std::nullopt},
                                       MemoryBudgets{65, 25}, MemoryBudgets{std::nullopt, 25}}) {
    const auto fitted = chain.fit(2, budgets);
    ASSERT_TRUE(fitted);
    EXPECT_EQ(llvm::count(fitted->stageOf, budgets.front() == 25 ? 0u : 1u), 2);
  }
  // More than the largest has is no obstacle to the bound, nor less than the smallest.
  EXPECT_TRUE(mayFit(chain, chain.model, MemoryBudgets{14, 15}));
  EXPECT_FALSE(mayFit(chain, chain.model, MemoryBudgets{14, 14}));
  EXPECT_FALSE(chain.fit(2, MemoryBudgets{25, 64}));
  // With half of it the other rank does, whatever it has now.
  EXPECT_EQ(chain.fitting(2, {25, 55}).minBudget()->bytes, 35);
  EXPECT_EQ(chain.fitting(2, {1, 55}).minBudget()->bytes, 35);
  EXPECT_EQ(chain.fitting(2, {1, std::nullopt}).minBudget()->bytes, 15);
}

// Where one of the tensor-parallel ranks 0 and 2 holds most.
TEST(MemoryConstrainedCutter, NoCutNeedsMoreThanTheLargestDeviceThatMayHoldMost) {
  struct Unlike : Chain {
    using Chain::Chain;
    std::vector<uint32_t> fullestRankCandidates() const override { return {0, 2}; }
  };
  const Chain first({10}, {5});
  const Unlike unlike({10}, {5});
  Machine machine = Machine::cpu(6);
  for (auto [device, bytes] : llvm::zip(machine.devices, std::vector<int64_t>{30, 90, 40, 60, 70, 50}))
    device.memoryBytes = bytes;
  EXPECT_EQ(largestBudgets(first, machine, 2, 3), (MemoryBudgets{30, 60}));
  EXPECT_EQ(largestBudgets(unlike, machine, 2, 3), (MemoryBudgets{40, 60}));
  // Of three data-parallel ranks the one that has least.
  EXPECT_EQ(largestBudgets(first, machine, 2, 1, 3), (MemoryBudgets{30, 50}));
  machine.devices[5].memoryBytes.reset();
  EXPECT_EQ(largestBudgets(unlike, machine, 2, 3), (MemoryBudgets{40, std::nullopt}));
}

TEST(MemoryConstrainedCutter, KeepsToItsRoomAndKnowsHowMuchIsEnough) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    std::vector<int64_t> weights, beside;
    for (uint32_t node = 0, count = 5 + dice.below(6); node < count; ++node) {
      weights.push_back(1000 * (1 + dice.below(20)));
      beside.push_back(1000 * dice.below(dice.below(4) == 0 ? 40 : 8));
    }
    const Chain chain(weights, beside);
    const uint32_t ranks = 1 + dice.below(3), stages = ranks * (1 + dice.below(ranks > 1 ? 2 : 1));
    if (stages > weights.size())
      continue;
    // Some ranks, of which one is left, have more than they can need, or what is not limited.
    MemoryBudgets budgets(ranks, 0);
    for (uint32_t rank = 1; rank < ranks && dice.below(2); ++rank)
      budgets[rank] = dice.below(2) ? std::optional<int64_t>(10'000'000) : std::nullopt;
    auto with = [&](int64_t room) {
      MemoryBudgets result = budgets;
      for (auto &bytes : result)
        if (bytes == 0)
          bytes = room;
      return result;
    };
    const int64_t best = chain.leastOfAll(stages, budgets);
    for (int64_t room : {best / 2, best - 1, best, best + best / 8, 2 * best}) {
      const auto fitted = chain.fit(stages, with(room));
      if (!fitted)
        continue;
      EXPECT_GE(room, best);
      EXPECT_TRUE(mayFit(chain, chain.model, with(room)));
      EXPECT_FALSE(shortageOf(chain.of(chain.model, fitted->stageOf, ranks), with(room)));
    }
    const auto enough = chain.fitting(stages, with(best / 2)).minBudget();
    ASSERT_TRUE(enough);
    EXPECT_GE(enough->bytes, best);
    EXPECT_FALSE(shortageOf(chain.of(chain.model, enough->fitted.cut->stageOf, ranks), with(enough->bytes)));
    // Where each rank has one stage, and all have as much, the search is near the best.
    if (stages == ranks && llvm::all_equal(budgets)) {
      EXPECT_LE(enough->bytes, best + best / 2);
    }
  }
}
