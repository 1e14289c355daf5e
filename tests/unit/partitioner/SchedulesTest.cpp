//===- SchedulesTest.cpp - Schedule generators ----------------------------===//
#include "partitioner/Schedules.h"

#include "RandomGraph.h"
#include "gtest/gtest.h"
#include <set>

using namespace cleave;

/// A plan of one signature whose stages exchange values at random: skips, fan-in, fan-out, stages that stand
/// alone.
static plan::Plan randomPlan(Dice &dice, uint32_t stages, uint32_t ranks) {
  plan::Plan plan;
  plan.mesh = std::make_unique<plan::Mesh>();
  plan.mesh->pp = ranks;
  plan.signatures.push_back(std::make_unique<plan::Signature>());
  plan.signatures.back()->batch = 0;
  for (uint32_t stage = 0; stage < stages; ++stage) {
    plan.stages.push_back(std::make_unique<plan::Stage>());
    plan.stages.back()->index = stage;
    plan.stages.back()->ranks = {stage % ranks};
    auto program = std::make_unique<plan::Program>();
    program->stage = stage;
    for (uint32_t slot = 0; slot < 3; ++slot)
      program->outputs.push_back(program->slots++);
    for (uint32_t from = 0; from < stage; ++from)
      for (uint32_t index = 0; index < 3; ++index)
        if (dice.below(5) == 0) {
          program->inputs.push_back(std::make_unique<plan::ProgramInput>());
          program->inputs.back()->slot = program->slots++;
          program->inputs.back()->source = plan::Source::Stage;
          program->inputs.back()->stage = from;
          program->inputs.back()->index = index;
        }
    plan.programs.push_back(std::move(program));
  }
  return plan;
}

static std::vector<std::string> actionsOf(const plan::Schedule &schedule, uint32_t rank) {
  std::vector<std::string> actions;
  for (const auto &action : schedule.ranks[rank]->actions)
    actions.push_back(plan::toString(*action));
  return actions;
}

static std::string messageOf(llvm::Error error) {
  return error ? llvm::toString(std::move(error)) : "no error";
}

TEST(Gpipe, SendsMicrobatchesOneBehindTheOther) {
  const plan::Schedule schedule =
      gpipe(/*signature=*/3, /*stages=*/2, /*ranks=*/2, /*microbatches=*/2, {{0, 1, {0}, {0}}});
  EXPECT_EQ(schedule.signature, 3u);
  EXPECT_EQ(schedule.name, "gpipe");
  EXPECT_EQ(schedule.microbatches, 2u);
  EXPECT_EQ(schedule.slices, 1u);
  ASSERT_EQ(schedule.ranks.size(), 2u);
  EXPECT_EQ(schedule.ranks[1]->rank, 1u);
  EXPECT_EQ(actionsOf(schedule, 0), (std::vector<std::string>{"F0.0", "S0.0>1", "F0.1", "S0.1>1"}));
  EXPECT_EQ(actionsOf(schedule, 1), (std::vector<std::string>{"R1.0<0", "F1.0", "R1.1<0", "F1.1"}));
}

TEST(Gpipe, OrdersPeersByStage) {
  const plan::Transfer transfers[] = {{1, 2, {0}, {0}}, {0, 2, {0}, {0}}, {0, 1, {0}, {0}}};
  const plan::Schedule schedule = gpipe(0, 3, 3, 1, transfers);
  EXPECT_EQ(actionsOf(schedule, 0), (std::vector<std::string>{"F0.0", "S0.0>1", "S0.0>2"}));
  EXPECT_EQ(actionsOf(schedule, 1), (std::vector<std::string>{"R1.0<0", "F1.0", "S1.0>2"}));
  EXPECT_EQ(actionsOf(schedule, 2), (std::vector<std::string>{"R2.0<0", "R2.0<1", "F2.0"}));
}

TEST(Gpipe, InterleavesStagesOfARank) {
  const plan::Transfer transfers[] = {{0, 1, {0}, {0}}, {1, 2, {0}, {0}}, {2, 3, {0}, {0}}};
  const plan::Schedule schedule = gpipe(0, 4, 2, 2, transfers);
  EXPECT_EQ(schedule.name, "interleaved");
  EXPECT_EQ(actionsOf(schedule, 0), (std::vector<std::string>{"F0.0", "S0.0>1", "F0.1", "R2.0<1", "S0.1>1", "F2.0",
                                                              "S2.0>3", "R2.1<1", "F2.1", "S2.1>3"}));
}

TEST(Gpipe, RunsOneStageAlone) {
  EXPECT_EQ(actionsOf(gpipe(0, 1, 1, 2, {}), 0), (std::vector<std::string>{"F0.0", "F0.1"}));
}

TEST(Gpipe, TensorRanksActAlike) {
  const plan::Transfer transfers[] = {{0, 1, {0}, {0}}};
  const plan::Schedule alone = gpipe(0, 2, 2, 3, transfers), schedule = gpipe(0, 2, 2, 3, transfers, /*tp=*/3);
  ASSERT_EQ(schedule.ranks.size(), 6u);
  for (uint32_t rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(schedule.ranks[rank]->rank, rank);
    EXPECT_EQ(actionsOf(schedule, rank), actionsOf(alone, rank / 3));
  }
}

TEST(Gpipe, NeverDeadlocks) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const uint32_t stages = 1 + dice.below(9), ranks = 1 + dice.below(stages), microbatches = 1 + dice.below(6);
    const plan::Plan plan = randomPlan(dice, stages, ranks);
    std::vector<plan::Transfer> transfers = plan::transfers(plan, 0);
    const plan::Schedule schedule = gpipe(0, stages, ranks, microbatches, transfers);
    EXPECT_EQ(messageOf(plan::checkSchedule(plan, schedule)), "no error");
    std::reverse(transfers.begin(), transfers.end());
    for (uint32_t rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(actionsOf(schedule, rank), actionsOf(gpipe(0, stages, ranks, microbatches, transfers), rank));
  }
}
