//===- SimulatorMemoryTest.cpp - What ranks hold while they work ----------===//
#include "tests/unit/partitioner/RandomPipeline.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <algorithm>

using namespace cleave;

using Lines = std::vector<std::string>;

static std::vector<std::string> liveOn(const SimulationResult &simulation, uint32_t rank) {
  std::vector<std::string> lines;
  for (const LiveValues &live : simulation.ranks[rank].live)
    lines.push_back(llvm::formatv("{0}: {1}, {2}", live.time, live.inFlight, live.bytes));
  return lines;
}

TEST(Simulator, KeepsActivationsWhileTheirPassRuns) {
  PipelineCosts costs = twoStages(false);
  costs.stages[0].activationBytes = 100;
  costs.stages[1].activationBytes = 50;
  const SimulationResult simulation = llvm::cantFail(simulate(gpipe(pipelineOf({2, 1, 2})), costs));
  EXPECT_EQ(liveOn(simulation, 0), (Lines{"0.00: 1, 100", "1.00: 0, 0", "1.00: 0, 6", "2.50: 0, 0",
                                          "2.50: 1, 100", "3.50: 0, 0", "3.50: 0, 6", "6.00: 0, 0"}));
  EXPECT_EQ(liveOn(simulation, 1), (Lines{"2.50: 0, 6", "2.50: 0, 0", "2.50: 1, 50", "4.50: 0, 0",
                                          "6.00: 0, 6", "6.00: 0, 0", "6.00: 1, 50", "8.00: 0, 0"}));
  EXPECT_EQ(simulation.ranks[0].peakBytes, 100);
  EXPECT_EQ(simulation.ranks[1].peakBytes, 50);
}

TEST(Simulator, KeepsActivationsUntilTheirLastGradient) {
  PipelineCosts costs = costsOf({{1, 1, 1}, {1, 1, 1}});
  costs.transfers[0].bytes = 6;
  costs.link = {0, 6};
  costs.stages[0].activationBytes = 100;
  const SimulationResult simulation =
      llvm::cantFail(simulate(scheduleOf(TrainingSchedule::OneForwardOneBackward, {2, 1, 1}), costs));
  // The value that is sent, the receive that is posted for the gradient, the gradient while it is used.
  EXPECT_EQ(liveOn(simulation, 0), (Lines{"0.00: 1, 100", "1.00: 1, 106", "1.00: 1, 112", "2.00: 1, 106",
                                          "7.00: 1, 100", "8.00: 0, 0"}));
  EXPECT_EQ(simulation.ranks[0].peakBytes, 112);
}

TEST(Simulator, KeepsWhatAnotherStageOfTheRankWaitsFor) {
  PipelineCosts costs = costsOf({{1, 0, 0}, {1, 0, 0}});
  costs.transfers[0].bytes = 6;
  const Pipeline pipeline{0, 2, 1, 1, pipelineOf({2, 1, 1}).transfers};
  EXPECT_EQ(liveOn(llvm::cantFail(simulate(gpipe(pipeline), costs)), 0),
            (Lines{"0.00: 1, 1", "1.00: 0, 0", "1.00: 0, 6", "1.00: 0, 0", "1.00: 1, 1", "2.00: 0, 0"}));
}

/// The most that is held at the beginning of a change or between two.
static int64_t mostOf(const std::vector<MemoryStep> &steps) {
  int64_t most = 0;
  for (const MemoryStep &step : steps)
    most = std::max(most, step.bytes);
  return most;
}

/// What lives at a time, by what begins and ends.
static int64_t liveAt(const RankSimulation &rank, double time) {
  int64_t bytes = 0;
  for (const LiveValues &live : rank.live)
    if (live.time <= time)
      bytes = live.bytes;
  return bytes;
}

TEST(Simulator, MemoryOverTimeReachesThePeak) {
  constexpr TrainingSchedule kinds[] = {TrainingSchedule::Gpipe, TrainingSchedule::OneForwardOneBackward,
                                        TrainingSchedule::Interleaved, TrainingSchedule::ZeroBubbleH1};
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Dice dice(seed);
    const TrainingSchedule kind = kinds[dice.below(4)];
    const Shape shape{1 + dice.below(6), kind == TrainingSchedule::Interleaved ? 1 + dice.below(3) : 1,
                      1 + dice.below(9)};
    SCOPED_TRACE(nameOf(kind).str() + ": " + textOf(shape) + ", seed " + std::to_string(seed));
    PipelineCosts costs = costsOf(drawStages(dice, shape.p * shape.v));
    Pipeline pipeline = pipelineOf(shape);
    pipeline.ranksPerDeviceGroup = costs.ranksPerDeviceGroup = 1 + dice.below(3);
    costs.overlapsTransfers = dice.below(2);
    for (uint32_t stage = 0; stage < costs.stages.size(); ++stage) {
      costs.stages[stage].activationBytes = dice.below(40);
      costs.activationOverrides[{stage, dice.below(costs.ranksPerDeviceGroup)}] = dice.below(80);
    }
    for (TransferSize &transfer : costs.transfers)
      transfer.bytes = dice.below(50);
    costs.link = {draw(dice) / 4, 16};
    const SimulationResult simulation =
        llvm::cantFail(simulate(llvm::cantFail(makeTrainingSchedule(kind, pipeline)), costs));
    const int64_t base = dice.below(1000);
    for (const RankSimulation &rank : simulation.ranks) {
      const std::vector<MemoryStep> steps = memoryOverTime(rank, base);
      EXPECT_EQ(mostOf(steps), base + rank.peakBytes);
      EXPECT_EQ(steps.front().seconds, 0);
      EXPECT_EQ(steps.back().bytes, base);
      for (size_t i = 0; i < steps.size(); ++i) {
        // The last of those at one time is what is held from then on.
        if (i + 1 == steps.size() || steps[i + 1].seconds > steps[i].seconds) {
          EXPECT_EQ(steps[i].bytes, base + liveAt(rank, steps[i].seconds));
        }
        if (i > 0) {
          EXPECT_LE(steps[i - 1].seconds, steps[i].seconds);
          EXPECT_NE(steps[i - 1].bytes, steps[i].bytes);
        }
        if (i > 1) {
          EXPECT_LT(steps[i - 2].seconds, steps[i].seconds);
        }
      }
    }
  }
}

TEST(Simulator, MemoryOverTimeIsOfEachChange) {
  PipelineCosts costs = twoStages(false);
  costs.stages[0].activationBytes = 100;
  costs.stages[1].activationBytes = 4;
  const SimulationResult simulation = llvm::cantFail(simulate(gpipe(pipelineOf({2, 1, 2})), costs));
  EXPECT_EQ(memoryOverTime(simulation.ranks[0], 1000),
            (std::vector<MemoryStep>{{0, 1100}, {1, 1006}, {2.5, 1100}, {3.5, 1006}, {6, 1000}}));
  // What was received is more than what it becomes, and there for no time.
  EXPECT_EQ(memoryOverTime(simulation.ranks[1], 1000),
            (std::vector<MemoryStep>{
                {0, 1000}, {2.5, 1006}, {2.5, 1004}, {4.5, 1000}, {6, 1006}, {6, 1004}, {8, 1000}}));
  EXPECT_EQ(memoryOverTime(RankSimulation{}, 7), (std::vector<MemoryStep>{{0, 7}}));
}
