//===- SimulatorTest.cpp - Forecasts against closed formulas --------------===//
#include "partitioner/simulation/Simulator.h"

#include "codegen/plan/Schedule.h"
#include "partitioner/simulation/Schedules.h"
#include "tests/unit/partitioner/RandomPipeline.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <limits>

using namespace cleave;

static SimulationResult simulationOf(TrainingSchedule kind, const Shape &shape, const Times &times,
                                     bool overlaps = true) {
  PipelineCosts costs = costsOf(std::vector(shape.p * shape.v, times));
  costs.overlapsTransfers = overlaps;
  return llvm::cantFail(simulate(scheduleOf(kind, shape), costs));
}

static void expectBubble(const SimulationResult &simulation, double seconds) {
  for (uint32_t rank = 0; rank < simulation.ranks.size(); ++rank)
    EXPECT_NEAR(simulation.bubbleSeconds(rank), seconds, 1e-9) << "rank " << rank;
}

/// Calls `check` for shapes of `v` stages a rank, each with times of its own.
template <typename Check> static void sweep(uint32_t v, Check check) {
  Dice dice(v);
  for (uint32_t p = 1; p <= 8; ++p)
    for (uint32_t m : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 40}) {
      const Shape shape{p, v, m};
      for (uint32_t repeat = 0; repeat < 5; ++repeat) {
        const Times times = drawTimes(dice);
        SCOPED_TRACE(textOf(shape) + llvm::formatv(", f={0} x={1} w={2}", times.f, times.x, times.w).str());
        check(shape, times);
      }
    }
}

//===- Formulas -----------------------------------------------------------===//

TEST(SimulatorFormulas, Gpipe) {
  sweep(1, [](const Shape &shape, const Times &times) {
    for (bool overlaps : {true, false}) {
      const SimulationResult simulation = simulationOf(TrainingSchedule::Gpipe, shape, times, overlaps);
      expectBubble(simulation, (shape.p - 1) * (times.f + times.b()));
      for (const RankSimulation &rank : simulation.ranks)
        EXPECT_EQ(rank.peakInFlight, shape.m);
    }
  });
}

TEST(SimulatorFormulas, OneForwardOneBackward) {
  sweep(1, [](const Shape &shape, const Times &times) {
    for (bool overlaps : {true, false}) {
      const SimulationResult simulation =
          simulationOf(TrainingSchedule::OneForwardOneBackward, shape, times, overlaps);
      expectBubble(simulation, (shape.p - 1) * (times.f + times.b()));
      for (uint32_t rank = 0; rank < shape.p; ++rank)
        EXPECT_EQ(simulation.ranks[rank].peakInFlight, std::min(shape.p - rank, shape.m));
    }
  });
}

TEST(SimulatorFormulas, Interleaved) {
  for (uint32_t v = 1; v <= 4; ++v)
    sweep(v, [&](const Shape &shape, const Times &times) {
      const SimulationResult simulation = simulationOf(TrainingSchedule::Interleaved, shape, times);
      const Shape full{shape.p, v, (shape.m + shape.p - 1) / shape.p * shape.p};
      // Of a stage, which is one of v that share what a rank does for a micro-batch.
      if (shape.m == full.m)
        expectBubble(simulation, (shape.p - 1) * (times.f + times.b()));
      else
        EXPECT_LE(simulation.seconds,
                  simulationOf(TrainingSchedule::Interleaved, full, times).seconds + 1e-9);
      for (uint32_t rank = 0; rank < shape.p; ++rank) {
        const uint32_t most = std::min(shape.m * v, (v - 1) * shape.p + 2 * (shape.p - 1 - rank) + 1);
        if (shape.m == full.m)
          EXPECT_EQ(simulation.ranks[rank].peakInFlight, most);
        else
          EXPECT_LE(simulation.ranks[rank].peakInFlight, most);
      }
    });
}

TEST(SimulatorFormulas, ZeroBubble) {
  sweep(1, [](const Shape &shape, Times times) {
    // Fewer micro-batches than ranks leave fewer weight gradients to fill the wait with.
    auto bubble = [&] {
      return (shape.p - 1) * (times.f + times.x) - (std::min(shape.m, shape.p) - 1) * times.w;
    };
    EXPECT_GE(simulationOf(TrainingSchedule::ZeroBubbleH1, shape, times).bubbleSeconds(0), bubble() - 1e-9);
    times.w = std::min({times.f, times.x, times.w});
    const SimulationResult simulation = simulationOf(TrainingSchedule::ZeroBubbleH1, shape, times);
    expectBubble(simulation, bubble());
    for (const RankSimulation &rank : simulation.ranks)
      EXPECT_EQ(rank.peakInFlight, std::min(shape.p, shape.m));
    // Where sends wait, times other than those that the schedule is laid out with cost more.
    times = {times.f, times.f, times.f};
    expectBubble(simulationOf(TrainingSchedule::ZeroBubbleH1, shape, times, /*overlaps=*/false), bubble());
  });
}

/// Σ + (m-1)·max of a number of each stage.
template <typename Number>
static double chainSeconds(const std::vector<Times> &stages, uint32_t m, Number number) {
  double sum = 0, most = 0;
  for (const Times &times : stages) {
    sum += number(times);
    most = std::max(most, number(times));
  }
  return sum + (m - 1) * most;
}

TEST(SimulatorFormulas, UnequalStagesForward) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const Shape shape{1 + dice.below(8), 1, 1 + dice.below(16)};
    const std::vector<Times> stages = drawStages(dice, shape.p);
    PipelineCosts costs = costsOf(stages);
    for (bool overlaps : {true, false}) {
      costs.overlapsTransfers = overlaps;
      const SimulationResult simulation = llvm::cantFail(simulate(gpipe(pipelineOf(shape)), costs));
      EXPECT_NEAR(simulation.seconds, chainSeconds(stages, shape.m, [](auto &each) { return each.f; }), 1e-9);
    }
  }
}

TEST(SimulatorFormulas, UnequalStagesForwardAndBackward) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const Shape shape{1 + dice.below(8), 1, 1 + dice.below(16)};
    const std::vector<Times> stages = drawStages(dice, shape.p);
    const SimulationResult simulation =
        llvm::cantFail(simulate(scheduleOf(TrainingSchedule::Gpipe, shape), costsOf(stages)));
    const double forward = chainSeconds(stages, shape.m, [](auto &each) { return each.f; }),
                 backward = chainSeconds(stages, shape.m, [](auto &each) { return each.b(); });
    EXPECT_NEAR(simulation.seconds, forward + backward, 1e-9);
    // A stage need not be slowest in both, and then forward and backward passes fill each other's waits.
    const SimulationResult alternating =
        llvm::cantFail(simulate(scheduleOf(TrainingSchedule::OneForwardOneBackward, shape), costsOf(stages)));
    EXPECT_LE(alternating.seconds, forward + backward + 1e-9);
  }
}

//===- What holds of every schedule ---------------------------------------===//

static double passSecondsOf(const RankSimulation &rank) {
  double seconds = 0;
  for (const TimedAction &timed : rank.timeline)
    if (timed.action.kind <= plan::ActionKind::BackwardWeight)
      seconds += timed.end - timed.begin;
  return seconds;
}

/// Its ranks do what the schedule says, in its order, and one thing at a time: passes, where transfers
/// overlap, else all.
static void expectTimelineOf(const plan::Schedule &schedule, const SimulationResult &simulation,
                             bool overlaps) {
  ASSERT_EQ(simulation.ranks.size(), schedule.ranks.size());
  for (uint32_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const RankSimulation &found = simulation.ranks[rank];
    ASSERT_EQ(found.timeline.size(), schedule.ranks[rank]->actions.size());
    double end = 0;
    for (uint32_t i = 0; i < found.timeline.size(); ++i) {
      const TimedAction &timed = found.timeline[i];
      EXPECT_EQ(plan::toString(timed.action), plan::toString(*schedule.ranks[rank]->actions[i]));
      EXPECT_LE(timed.begin, timed.end);
      EXPECT_LE(timed.end, simulation.seconds);
      if (overlaps && timed.action.kind > plan::ActionKind::BackwardWeight)
        continue;
      EXPECT_GE(timed.begin, end);
      end = timed.end;
    }
    EXPECT_NEAR(found.busySeconds, passSecondsOf(found), 1e-9);
    // What came has gone.
    EXPECT_EQ(found.live.back().inFlight, 0u);
    EXPECT_EQ(found.live.back().bytes, 0);
  }
}

TEST(Simulator, KeepsToTheTable) {
  constexpr TrainingSchedule kinds[] = {TrainingSchedule::Gpipe, TrainingSchedule::OneForwardOneBackward,
                                        TrainingSchedule::Interleaved, TrainingSchedule::ZeroBubbleH1};
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Dice dice(seed);
    const TrainingSchedule kind = kinds[dice.below(4)];
    const Shape shape{1 + dice.below(6), kind == TrainingSchedule::Interleaved ? 1 + dice.below(3) : 1,
                      1 + dice.below(9)};
    SCOPED_TRACE(nameOf(kind).str() + ": " + textOf(shape) + ", seed " + std::to_string(seed));
    PipelineCosts costs = costsOf(drawStages(dice, shape.p * shape.v));
    for (TransferSize &transfer : costs.transfers)
      transfer.bytes = dice.below(9);
    costs.link = {draw(dice) / 4, 16};
    const plan::Schedule schedule = scheduleOf(kind, shape);
    double seconds[2];
    for (bool overlaps : {true, false}) {
      costs.overlapsTransfers = overlaps;
      const SimulationResult simulation = llvm::cantFail(simulate(schedule, costs));
      expectTimelineOf(schedule, simulation, overlaps);
      seconds[overlaps] = simulation.seconds;
    }
    EXPECT_LE(seconds[true], seconds[false] + 1e-9);
  }
}

//===- Transfers ----------------------------------------------------------===//

static std::vector<std::string> timelineOf(const SimulationResult &simulation, uint32_t rank) {
  std::vector<std::string> lines;
  for (const TimedAction &timed : simulation.ranks[rank].timeline)
    lines.push_back(llvm::formatv("{0} {1}-{2}", plan::toString(timed.action), timed.begin, timed.end));
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Simulator, SendsWaitForReceives) {
  const SimulationResult simulation =
      llvm::cantFail(simulate(gpipe(pipelineOf({2, 1, 2})), twoStages(false)));
  EXPECT_EQ(timelineOf(simulation, 0),
            (Lines{"F0.0 0.00-1.00", "S0.0>1 1.00-2.50", "F0.1 2.50-3.50", "S0.1>1 3.50-6.00"}));
  EXPECT_EQ(timelineOf(simulation, 1),
            (Lines{"R1.0<0 0.00-2.50", "F1.0 2.50-4.50", "R1.1<0 4.50-6.00", "F1.1 6.00-8.00"}));
  EXPECT_EQ(simulation.seconds, 8);
  EXPECT_EQ(simulation.bubbleSeconds(0), 6);
  EXPECT_EQ(simulation.bubbleSeconds(1), 4);
}

TEST(Simulator, TransfersOverlap) {
  const SimulationResult simulation = llvm::cantFail(simulate(gpipe(pipelineOf({2, 1, 3})), twoStages(true)));
  EXPECT_EQ(timelineOf(simulation, 0), (Lines{"F0.0 0.00-1.00", "S0.0>1 1.00-2.50", "F0.1 1.00-2.00",
                                              "S0.1>1 2.00-3.50", "F0.2 2.00-3.00", "S0.2>1 3.00-4.50"}));
  EXPECT_EQ(timelineOf(simulation, 1), (Lines{"R1.0<0 0.00-2.50", "F1.0 2.50-4.50", "R1.1<0 4.50-4.50",
                                              "F1.1 4.50-6.50", "R1.2<0 6.50-6.50", "F1.2 6.50-8.50"}));
}

TEST(Simulator, MessagesShareALink) {
  PipelineCosts costs = twoStages(true);
  // Two seconds a message, the sender makes one a second.
  costs.linkOverrides[{0, 1}] = {0.5, 3};
  const SimulationResult simulation = llvm::cantFail(simulate(gpipe(pipelineOf({2, 1, 3})), costs));
  EXPECT_EQ(timelineOf(simulation, 0), (Lines{"F0.0 0.00-1.00", "S0.0>1 1.00-3.50", "F0.1 1.00-2.00",
                                              "S0.1>1 3.00-5.50", "F0.2 2.00-3.00", "S0.2>1 5.00-7.50"}));
  EXPECT_EQ(simulation.seconds, 9.5);
}

TEST(Simulator, LinksAreOfADirection) {
  PipelineCosts costs = costsOf({{1, 1, 1}, {1, 1, 1}});
  costs.transfers[0].bytes = 6;
  costs.link = {0, 6};
  costs.linkOverrides[{1, 0}] = {7, 6};
  const SimulationResult simulation =
      llvm::cantFail(simulate(scheduleOf(TrainingSchedule::OneForwardOneBackward, {2, 1, 1}), costs));
  EXPECT_EQ(timelineOf(simulation, 0), (Lines{"F0.0 0.00-1.00", "S0.0>1 1.00-2.00", "RG0.0<1 1.00-13.00",
                                              "B0.0 13.00-14.00", "W0.0 14.00-15.00"}));
}

TEST(Simulator, TensorRanksActAlike) {
  Pipeline pipeline = pipelineOf({2, 1, 2});
  pipeline.ranksPerDeviceGroup = 2;
  PipelineCosts costs = twoStages(false);
  costs.ranksPerDeviceGroup = 2;
  const SimulationResult alone = llvm::cantFail(simulate(gpipe(pipelineOf({2, 1, 2})), twoStages(false))),
                         alike = llvm::cantFail(simulate(gpipe(pipeline), costs));
  ASSERT_EQ(alike.ranks.size(), 4u);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(timelineOf(alike, rank), timelineOf(alone, rank / 2));
    EXPECT_EQ(alike.bubbleSeconds(rank), alone.bubbleSeconds(rank / 2));
  }
  costs.linkOverrides[{1, 3}] = {0.5, 3};
  const SimulationResult simulation = llvm::cantFail(simulate(gpipe(pipeline), costs));
  EXPECT_EQ(timelineOf(simulation, 2).front(), "R1.0<0 0.00-2.50");
  EXPECT_EQ(timelineOf(simulation, 3).front(), "R1.0<0 0.00-3.50");
  for (uint32_t rank : {2, 3})
    EXPECT_EQ(timelineOf(simulation, rank)[1], "F1.0 3.50-5.50");
}

/// Each of them has another slow link, behind each other.
TEST(Simulator, TensorRanksWaitForEachOther) {
  Pipeline pipeline = pipelineOf({3, 1, 1});
  pipeline.ranksPerDeviceGroup = 2;
  for (bool overlaps : {false, true}) {
    SCOPED_TRACE(overlaps);
    PipelineCosts costs = costsOf({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}});
    costs.ranksPerDeviceGroup = 2;
    costs.overlapsTransfers = overlaps;
    costs.linkOverrides[{0, 2}] = costs.linkOverrides[{3, 5}] = {10, 1e9};
    EXPECT_NEAR(llvm::cantFail(simulate(gpipe(pipeline), costs)).seconds, 23, 1e-6);
  }
}

/// They do not, and may have less to do.
TEST(Simulator, DataRanksGoOnByThemselves) {
  Pipeline pipeline = pipelineOf({3, 1, 1});
  pipeline.ranksPerDeviceGroup = 2;
  PipelineCosts costs = costsOf({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}});
  costs.ranksPerDeviceGroup = 2;
  costs.tensorParallelSize = 1;
  costs.linkOverrides[{0, 2}] = costs.linkOverrides[{3, 5}] = {10, 1e9};
  plan::Schedule schedule = gpipe(pipeline);
  EXPECT_NEAR(llvm::cantFail(simulate(schedule, costs)).seconds, 13, 1e-6);
  for (uint32_t rank : {1, 3, 5})
    schedule.ranks[rank]->actions.clear();
  EXPECT_EQ(llvm::cantFail(simulate(schedule, costs)).ranks[5].busySeconds, 0);
}

//===- What cannot be simulated -------------------------------------------===//

static std::string failureOf(const plan::Schedule &schedule, const PipelineCosts &costs) {
  llvm::Expected<SimulationResult> simulation = simulate(schedule, costs);
  return simulation ? "no error" : llvm::toString(simulation.takeError());
}

TEST(SimulatorErrors, TablesThatCannotFinish) {
  for (bool overlaps : {false, true}) {
    SCOPED_TRACE(overlaps);
    const PipelineCosts costs = twoStages(overlaps);
    plan::Schedule schedule = gpipe(pipelineOf({2, 1, 1}));
    schedule.ranks[0]->actions.pop_back();
    EXPECT_EQ(failureOf(schedule, costs),
              overlaps ? "schedule 'gpipe': it cannot finish: rank 1 at F1.0 would wait for ever"
                       : "schedule 'gpipe': it cannot finish: rank 1 at R1.0<0 would wait for ever");
    schedule.ranks[1]->actions.pop_back();
    EXPECT_EQ(failureOf(schedule, costs),
              "schedule 'gpipe': it cannot finish: rank 1 at R1.0<0 would wait for ever");
    schedule = gpipe(pipelineOf({2, 1, 1}));
    std::swap(schedule.ranks[1]->actions[0], schedule.ranks[1]->actions[1]);
    EXPECT_NE(failureOf(schedule, costs).find("rank 1 at F1.0 would wait for ever"), std::string::npos);
  }
}

// With buffers both sends go through.
TEST(SimulatorErrors, SendsThatFaceEachOther) {
  plan::Schedule schedule = scheduleOf(TrainingSchedule::Gpipe, {2, 1, 2});
  // Rank 1: R F B W S R F B W S.
  auto &actions = schedule.ranks[1]->actions;
  std::rotate(actions.begin() + 2, actions.begin() + 4, actions.begin() + 7);
  ASSERT_EQ(plan::toString(*actions[4]), "SG1.0>0");
  EXPECT_EQ(failureOf(schedule, costsOf({{1, 1, 1}, {1, 1, 1}})), "no error");
  PipelineCosts costs = costsOf({{1, 1, 1}, {1, 1, 1}});
  costs.overlapsTransfers = false;
  EXPECT_EQ(failureOf(schedule, costs),
            "schedule 'gpipe': it cannot finish: rank 0 at S0.1>1, rank 1 at SG1.0>0 would wait for ever");
}

TEST(SimulatorErrors, CostsThatAreNone) {
  const plan::Schedule schedule = gpipe(pipelineOf({2, 1, 1}));
  PipelineCosts costs = twoStages(false);
  costs.stages[1].forward = -1;
  EXPECT_EQ(failureOf(schedule, costs), "schedule 'gpipe': the costs of stage 1 are negative or not finite");
  costs = twoStages(false);
  costs.stages[0].weightGradient = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(failureOf(schedule, costs), "schedule 'gpipe': the costs of stage 0 are negative or not finite");
  costs = twoStages(false);
  costs.transfers[0].bytes = -1;
  EXPECT_EQ(failureOf(schedule, costs), "schedule 'gpipe': stage 0 gives stage 1 a negative number of bytes");
  costs = twoStages(false);
  costs.link.bytesPerSecond = 0;
  EXPECT_EQ(failureOf(schedule, costs),
            "schedule 'gpipe': a link's latency is negative, or its bandwidth not above 0");
}

TEST(SimulatorErrors, CostsOfAnotherSchedule) {
  const plan::Schedule schedule = gpipe(pipelineOf({2, 1, 1}));
  EXPECT_EQ(failureOf(schedule, costsOf({{1, 0, 0}})),
            "schedule 'gpipe': rank 0: S0.0>1: there is nothing to move between these stages");
  PipelineCosts costs = twoStages(false);
  costs.transfers.clear();
  EXPECT_EQ(failureOf(schedule, costs),
            "schedule 'gpipe': rank 0: S0.0>1: there is nothing to move between these stages");
  const plan::Schedule longer = gpipe(pipelineOf({3, 1, 1}));
  EXPECT_EQ(failureOf(longer, costs),
            "schedule 'gpipe': rank 0: S0.0>1: there is nothing to move between these stages");
}

/// Ranks of one place that hold unlike much.
TEST(Simulator, GivesEachRankWhatItHolds) {
  Pipeline pipeline{0, 2, 2, 1, {{0, 1, {0}, {0}}}, /*width=*/2};
  PipelineCosts costs;
  costs.stages = {{1, 0, 0, 50}, {1, 0, 0, 70}};
  costs.transfers = {{0, 1, 5}};
  costs.ranksPerDeviceGroup = 2;
  costs.activationOverrides[{1, 1}] = 20;
  const SimulationResult simulation = llvm::cantFail(simulate(gpipe(pipeline), costs));
  std::vector<int64_t> peaks;
  for (const RankSimulation &rank : simulation.ranks)
    peaks.push_back(rank.peakBytes);
  EXPECT_EQ(peaks, (std::vector<int64_t>{50, 50, 70, 20}));
}

TEST(Simulator, RefusesMoreBytesThanCanBeCounted) {
  Pipeline pipeline{0, 3, 3, 1, {{0, 2, {0}, {0}}, {1, 2, {0}, {0}}}};
  PipelineCosts costs;
  costs.stages = {{1}, {1}, {1, 0, 0, INT64_MAX}};
  costs.transfers = {{0, 2, INT64_MAX}, {1, 2, INT64_MAX}};
  EXPECT_EQ(llvm::toString(simulate(gpipe(pipeline), costs).takeError()),
            "schedule 'gpipe': rank 0 would hold more than 2^62 bytes");
  costs.transfers[0].bytes = costs.transfers[1].bytes = costs.stages[2].activationBytes =
      (int64_t(1) << 61) + 1;
  EXPECT_EQ(llvm::toString(simulate(gpipe(pipeline), costs).takeError()),
            "schedule 'gpipe': rank 2 would hold more than 2^62 bytes");
}
