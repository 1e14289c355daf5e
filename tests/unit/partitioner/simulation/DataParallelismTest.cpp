//===- DataParallelismTest.cpp - Pipelines side by side -------------------===//
// State and traffic against the formulas of Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training
// Trillion Parameter Models" (2020), sums beside the backward pass against those of Li et al., "PyTorch
// Distributed" (2020).
#include "partitioner/simulation/DataParallelism.h"
#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>
#include <random>

using namespace cleave;

/// A byte a second, no latency.
static const Link kByteASecond{0, 1};

TEST(DataParallelGroup, HoldsWhatThePaperSays) {
  // Figure 1: 7.5 billion parameters on 64 ranks, K = 12.
  const int64_t psi = 7'500'000'000;
  const double gigabytes[] = {120, 31.4, 16.6, 1.9};
  for (uint32_t zero = 0; zero <= kMaxZeroStage; ++zero)
    EXPECT_NEAR((DataParallelGroup{64, zero}.heldBytes(2 * psi, 2 * psi, 12 * psi)) / 1e9, gigabytes[zero],
                0.05);
}

TEST(DataParallelGroup, HoldsThePartsOfItsFormulas) {
  for (int64_t n : {1, 2, 3, 8, 64})
    for (int64_t psi : {192, 192 * 1000, 192 * 77}) {
      const int64_t w = 2 * psi, g = 4 * psi, k = 12 * psi;
      TrainingStageCost whole;
      // Weights that are not trained stay whole.
      whole.stateBytes = w + g + k + 5;
      whole.weightBytes = w;
      whole.gradientBytes = g;
      whole.optimizerBytes = k;
      const int64_t formulas[] = {w + g + k, w + g + k / n, w + (g + k) / n, (w + g + k) / n};
      for (uint32_t zero = 0; zero <= kMaxZeroStage; ++zero)
        EXPECT_EQ((DataParallelGroup{uint32_t(n), zero}.shardedCost(whole).stateBytes), formulas[zero] + 5)
            << n << " " << zero;
    }
}

/// A stage of float32 weights in items of these bytes, a bucket each, that computes nothing.
static TrainingStageCost stageOf(std::vector<int64_t> items) {
  TrainingStageCost stage;
  for (int64_t bytes : items)
    stage.weightBytes += bytes;
  stage.gradientBytes = stage.weightBytes;
  for (int64_t bytes : llvm::reverse(items))
    stage.buckets.push_back({bytes});
  stage.layerBytes = std::move(items);
  return stage;
}

/// Forward and backward pass of one micro-batch that takes what `part` says, as simulate gives it.
static RankSimulation passesOf(const TrainingStageCost &part, bool isSplit = false) {
  RankSimulation rank;
  double now = 0;
  auto pass = [&](plan::ActionKind kind, double seconds) {
    TimedAction timed{{}, now, now + seconds};
    timed.action.kind = kind;
    rank.timeline.push_back(timed);
    now += seconds;
  };
  pass(plan::ActionKind::Forward, part.forward);
  pass(plan::ActionKind::BackwardInput, part.inputGradient);
  if (isSplit)
    pass(plan::ActionKind::Forward, 0);
  pass(plan::ActionKind::BackwardWeight, part.weightGradient);
  return rank;
}

TEST(DataParallelGroup, SendsWhatThePaperSays) {
  const TrainingStageCost stage = stageOf({600, 100, 1400});
  const double bytes = 2100;
  for (uint32_t ranks : {2, 3, 7}) {
    const double others = bytes * (ranks - 1) / ranks;
    // Twice the bytes, of an all-reduce, or of a reduce-scatter and the all-gather after the update; half of
    // that more at 3.
    const double formulas[] = {2 * others, 2 * others, 2 * others, 3 * others};
    for (uint32_t zero = 0; zero <= kMaxZeroStage; ++zero) {
      const DataParallelGroup group{ranks, zero, kByteASecond};
      const TrainingStageCost part = group.shardedCost(stage);
      EXPECT_NEAR(group.gradientsReducedAt(passesOf(part), {part}) +
                      group.allGatherSeconds(stage.weightBytes),
                  formulas[zero], 1e-9)
          << zero;
    }
  }
}

TEST(DataParallelGroup, HidesSumsBehindTheBackwardPass) {
  // Three layers of 4 s for gradients of inputs and 2 s for those of weights; over two ranks a bucket takes
  // as many seconds as it has bytes.
  TrainingStageCost stage;
  stage.forward = 5;
  stage.inputGradient = 12;
  stage.weightGradient = 6;
  stage.buckets = {{1, 8, 4}, {3, 4, 2}, {2, 0, 0}};
  const DataParallelGroup group{2, 0, kByteASecond};
  // In one go, gradients of layers are there at 11, 17 and 23, and summed at 12, 20 and 25.
  EXPECT_DOUBLE_EQ(group.gradientsReducedAt(passesOf(stage), {stage}), 25);
  // Apart, at 19, 21 and 23: at 20, 24 and 26.
  EXPECT_DOUBLE_EQ(group.gradientsReducedAt(passesOf(stage, /*isSplit=*/true), {stage}), 26);
  // One rank has nothing to sum, nor do ranks whose weights are not trained.
  EXPECT_DOUBLE_EQ((DataParallelGroup{1, 0, kByteASecond}.gradientsReducedAt(passesOf(stage), {stage})), 23);
  stage.buckets.clear();
  EXPECT_DOUBLE_EQ(group.gradientsReducedAt(passesOf(stage), {stage}), 23);
}

TEST(DataParallelGroup, SumsAreNeverBeforeTheyCanBe) {
  std::mt19937 random(7);
  auto upTo = [&](int most) { return double(random() % (most + 1)); };
  for (int trial = 0; trial < 200; ++trial) {
    TrainingStageCost stage;
    stage.forward = upTo(5);
    std::vector<std::pair<double, double>> layers(1 + random() % 6);
    for (auto &[input, weight] : layers) {
      stage.inputGradient += input = upTo(4);
      stage.weightGradient += weight = upTo(4);
    }
    double input = stage.inputGradient, weight = stage.weightGradient, bytes = 0;
    for (auto [ownInput, ownWeight] : llvm::reverse(layers)) {
      stage.buckets.push_back({int64_t(random() % 9), input -= ownInput, weight -= ownWeight});
      bytes += stage.buckets.back().bytes;
    }
    const double all = stage.forward + stage.inputGradient + stage.weightGradient;
    double before = 0;
    for (uint32_t zero : {0, 1}) {
      const DataParallelGroup group{4, zero, kByteASecond};
      const double sums = bytes * 3 / 4 * (zero ? 1 : 2),
                   last = double(stage.buckets.back().bytes) * 3 / 4 * (zero ? 1 : 2);
      const double found = group.gradientsReducedAt(passesOf(stage), {stage});
      EXPECT_GE(found, std::max(all + last, stage.forward + sums) - 1e-9);
      EXPECT_LE(found, all + sums + 1e-9);
      EXPECT_TRUE(zero == 0 || found <= before + 1e-9);
      before = found;
    }
  }
}

TEST(DataParallelGroup, GathersWhileItComputes) {
  TrainingStageCost stage = stageOf({10, 20, 30, 40});
  const DataParallelGroup group{2, 3, kByteASecond};
  // All four take 50 s; the first one 5, the last one 20.
  stage.forward = 30;
  stage.inputGradient = 100;
  stage.weightGradient = 20;
  TrainingStageCost part = group.shardedCost(stage);
  EXPECT_DOUBLE_EQ(part.forward, 5 + 45);
  EXPECT_DOUBLE_EQ(part.inputGradient, 20 + 100);
  // Sums of all but the first item's gradients, which come last.
  EXPECT_DOUBLE_EQ(part.weightGradient, 45);
  // The two largest neighbours' weights, and a bucket.
  EXPECT_EQ(part.bufferBytes, 70 + 40);
  stage.weightGradient = 60;
  EXPECT_DOUBLE_EQ(group.shardedCost(stage).weightGradient, 60);
  stage.update = 8;
  EXPECT_DOUBLE_EQ(group.shardedCost(stage).update, 4);
  EXPECT_DOUBLE_EQ((DataParallelGroup{2, 0, kByteASecond}.shardedCost(stage).update), 8);
}
