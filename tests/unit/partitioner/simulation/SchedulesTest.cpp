//===- SchedulesTest.cpp - Schedule generators ----------------------------===//
#include "partitioner/simulation/Schedules.h"

#include "tests/unit/partitioner/RandomGraph.h"
#include "gtest/gtest.h"
#include <set>

using namespace cleave;

/// A plan of one signature whose stages, `ranks` of them side by side, give each other what `from(stage)`
/// says: results of earlier stages, by their index.
template <typename From> static plan::Plan planOf(uint32_t stages, uint32_t ranks, From from) {
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
    for (auto [source, index] : from(stage)) {
      program->inputs.push_back(std::make_unique<plan::ProgramInput>());
      program->inputs.back()->slot = program->slots++;
      program->inputs.back()->source = plan::Source::Stage;
      program->inputs.back()->stage = source;
      program->inputs.back()->index = index;
    }
    plan.programs.push_back(std::move(program));
  }
  return plan;
}

using Results = std::vector<std::pair<uint32_t, uint32_t>>;

/// Skips, fan-in, fan-out, stages that stand alone.
static plan::Plan randomPlan(Dice &dice, uint32_t stages, uint32_t ranks) {
  return planOf(stages, ranks, [&](uint32_t stage) {
    Results results;
    for (uint32_t from = 0; from < stage; ++from)
      for (uint32_t index = 0; index < 3; ++index)
        if (dice.below(5) == 0)
          results.push_back({from, index});
    return results;
  });
}

/// Adds the backward programs: gradients come back along the transfers that `returns` picks.
static void addBackward(plan::Plan &plan, llvm::function_ref<bool(const plan::Transfer &)> returns) {
  const std::vector<plan::Transfer> forward = plan::transfers(plan, 0);
  for (uint32_t stage = 0; stage < plan.stages.size(); ++stage)
    for (plan::Phase phase : {plan::Phase::BackwardInput, plan::Phase::BackwardWeight}) {
      auto program = std::make_unique<plan::Program>();
      program->stage = stage;
      program->phase = phase;
      for (const plan::Transfer &transfer : forward)
        if (phase == plan::Phase::BackwardInput && transfer.from == stage && returns(transfer)) {
          program->inputs.push_back(std::make_unique<plan::ProgramInput>());
          program->inputs.back()->source = plan::Source::Stage;
          program->inputs.back()->stage = transfer.to;
          program->inputs.back()->phase = phase;
        }
      plan.programs.push_back(std::move(program));
    }
}

static plan::Plan chainPlan(uint32_t stages, uint32_t ranks) {
  return planOf(stages, ranks,
                [](uint32_t stage) { return stage == 0 ? Results{} : Results{{stage - 1, 0}}; });
}

static std::vector<std::string> actionsOf(const plan::Schedule &schedule, uint32_t rank) {
  std::vector<std::string> actions;
  for (const auto &action : schedule.ranks[rank]->actions)
    actions.push_back(plan::toString(*action));
  return actions;
}

/// Each stage gives the next one a value.
static std::vector<plan::Transfer> chain(uint32_t stages) {
  std::vector<plan::Transfer> transfers;
  for (uint32_t stage = 1; stage < stages; ++stage)
    transfers.push_back({stage - 1, stage, {0}, {0}});
  return transfers;
}

static std::string messageOf(llvm::Error error) {
  return error ? llvm::toString(std::move(error)) : "no error";
}

TEST(Gpipe, SendsMicrobatchesOneBehindTheOther) {
  const plan::Schedule schedule =
      gpipe({.signature = 3, .stages = 2, .pipelineRanks = 2, .microbatches = 2, .transfers = chain(2)});
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
  const std::vector<plan::Transfer> transfers = {{1, 2, {0}, {0}}, {0, 2, {0}, {0}}, {0, 1, {0}, {0}}};
  const plan::Schedule schedule = gpipe({.stages = 3, .pipelineRanks = 3, .transfers = transfers});
  EXPECT_EQ(actionsOf(schedule, 0), (std::vector<std::string>{"F0.0", "S0.0>1", "S0.0>2"}));
  EXPECT_EQ(actionsOf(schedule, 1), (std::vector<std::string>{"R1.0<0", "F1.0", "S1.0>2"}));
  EXPECT_EQ(actionsOf(schedule, 2), (std::vector<std::string>{"R2.0<0", "R2.0<1", "F2.0"}));
}

TEST(Gpipe, InterleavesStagesOfARank) {
  const plan::Schedule schedule =
      gpipe({.stages = 4, .pipelineRanks = 2, .microbatches = 2, .transfers = chain(4)});
  EXPECT_EQ(schedule.name, "interleaved");
  EXPECT_EQ(actionsOf(schedule, 0), (std::vector<std::string>{"F0.0", "S0.0>1", "F0.1", "R2.0<1", "S0.1>1",
                                                              "F2.0", "S2.0>3", "R2.1<1", "F2.1", "S2.1>3"}));
}

TEST(Gpipe, RunsOneStageAlone) {
  EXPECT_EQ(actionsOf(gpipe({.microbatches = 2}), 0), (std::vector<std::string>{"F0.0", "F0.1"}));
}

TEST(Gpipe, TensorRanksActAlike) {
  Pipeline pipeline{.stages = 2, .pipelineRanks = 2, .microbatches = 3, .transfers = chain(2)};
  const plan::Schedule alone = gpipe(pipeline);
  pipeline.ranksPerDeviceGroup = 3;
  const plan::Schedule schedule = gpipe(pipeline);
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
    const uint32_t stages = 1 + dice.below(9), ranks = 1 + dice.below(stages),
                   microbatches = 1 + dice.below(6);
    const plan::Plan plan = randomPlan(dice, stages, ranks);
    Pipeline pipeline{0, stages, ranks, microbatches, plan::transfers(plan, 0)};
    const plan::Schedule schedule = gpipe(pipeline);
    EXPECT_EQ(messageOf(plan::checkSchedule(plan, schedule)), "no error");
    std::reverse(pipeline.transfers.begin(), pipeline.transfers.end());
    for (uint32_t rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(actionsOf(schedule, rank), actionsOf(gpipe(pipeline), rank));
  }
}

//===- Training -----------------------------------------------------------===//

static constexpr TrainingSchedule kKinds[] = {TrainingSchedule::Gpipe,
                                              TrainingSchedule::OneForwardOneBackward,
                                              TrainingSchedule::Interleaved, TrainingSchedule::ZeroBubbleH1};

static bool takesSeveralStages(TrainingSchedule kind) {
  return kind == TrainingSchedule::Gpipe || kind == TrainingSchedule::Interleaved;
}

/// One after the other, transfers left out.
static std::string passesOf(TrainingSchedule kind, const Pipeline &pipeline, uint32_t rank) {
  std::string passes;
  for (const std::string &action : actionsOf(llvm::cantFail(makeTrainingSchedule(kind, pipeline)), rank))
    if (action[0] != 'S' && action[0] != 'R')
      passes += (passes.empty() ? "" : " ") + action;
  return passes;
}

TEST(Training, GpipeGoesForwardFirst) {
  const Pipeline pipeline{.stages = 2, .pipelineRanks = 2, .microbatches = 2, .transfers = chain(2)};
  const plan::Schedule schedule = llvm::cantFail(makeTrainingSchedule(TrainingSchedule::Gpipe, pipeline));
  EXPECT_EQ(schedule.name, "gpipe");
  EXPECT_EQ(actionsOf(schedule, 0), (std::vector<std::string>{"F0.0", "S0.0>1", "F0.1", "S0.1>1", "RG0.0<1",
                                                              "B0.0", "W0.0", "RG0.1<1", "B0.1", "W0.1"}));
  EXPECT_EQ(actionsOf(schedule, 1), (std::vector<std::string>{"R1.0<0", "F1.0", "R1.1<0", "F1.1", "B1.0",
                                                              "W1.0", "SG1.0>0", "B1.1", "W1.1", "SG1.1>0"}));
}

TEST(Training, OneForwardOneBackwardByTurns) {
  const Pipeline pipeline{.stages = 3, .pipelineRanks = 3, .microbatches = 4, .transfers = chain(3)};
  const TrainingSchedule kind = TrainingSchedule::OneForwardOneBackward;
  EXPECT_EQ(passesOf(kind, pipeline, 0), "F0.0 F0.1 F0.2 B0.0 W0.0 F0.3 B0.1 W0.1 B0.2 W0.2 B0.3 W0.3");
  EXPECT_EQ(passesOf(kind, pipeline, 1), "F1.0 F1.1 B1.0 W1.0 F1.2 B1.1 W1.1 F1.3 B1.2 W1.2 B1.3 W1.3");
  EXPECT_EQ(passesOf(kind, pipeline, 2), "F2.0 B2.0 W2.0 F2.1 B2.1 W2.1 F2.2 B2.2 W2.2 F2.3 B2.3 W2.3");
}

// Megatron's schedule of virtual pipeline stages: get_forward_backward_func with 2 ranks, 2 chunks.
TEST(Training, InterleavesInGroupsOfRanks) {
  Pipeline pipeline{.stages = 4, .pipelineRanks = 2, .microbatches = 4, .transfers = chain(4)};
  const TrainingSchedule kind = TrainingSchedule::Interleaved;
  EXPECT_EQ(passesOf(kind, pipeline, 0),
            "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 W2.0 F0.3 B2.1 W2.1 F2.2 B0.0 W0.0 F2.3 B0.1 W0.1 "
            "B2.2 W2.2 B2.3 W2.3 B0.2 W0.2 B0.3 W0.3");
  EXPECT_EQ(passesOf(kind, pipeline, 1),
            "F1.0 F1.1 F3.0 B3.0 W3.0 F3.1 B3.1 W3.1 F1.2 B1.0 W1.0 F1.3 B1.1 W1.1 F3.2 B3.2 "
            "W3.2 F3.3 B3.3 W3.3 B1.2 W1.2 B1.3 W1.3");
  // A short last group is a full one without what is not there.
  pipeline.microbatches = 3;
  EXPECT_EQ(passesOf(kind, pipeline, 1),
            "F1.0 F1.1 F3.0 B3.0 W3.0 F3.1 B3.1 W3.1 F1.2 B1.0 W1.0 B1.1 W1.1 F3.2 B3.2 W3.2 "
            "B1.2 W1.2");
}

TEST(Training, ZeroBubbleDelaysWeights) {
  const Pipeline pipeline{.stages = 2, .pipelineRanks = 2, .microbatches = 3, .transfers = chain(2)};
  const TrainingSchedule kind = TrainingSchedule::ZeroBubbleH1;
  EXPECT_EQ(passesOf(kind, pipeline, 0), "F0.0 F0.1 B0.0 W0.0 F0.2 B0.1 W0.1 B0.2 W0.2");
  EXPECT_EQ(passesOf(kind, pipeline, 1), "F1.0 B1.0 F1.1 B1.1 W1.0 F1.2 B1.2 W1.1 W1.2");
}

TEST(Training, RefusesSeveralStagesOfARankWhereItMustBeOne) {
  const Pipeline pipeline{.stages = 4, .pipelineRanks = 2, .microbatches = 2, .transfers = chain(4)};
  EXPECT_EQ(messageOf(makeTrainingSchedule(TrainingSchedule::OneForwardOneBackward, pipeline).takeError()),
            "schedule 1f1b: found 4 stages on 2 ranks, expected one a rank; use interleaved");
  EXPECT_EQ(messageOf(makeTrainingSchedule(TrainingSchedule::ZeroBubbleH1, pipeline).takeError()),
            "schedule zb-h1: found 4 stages on 2 ranks, expected one a rank; use interleaved");
}

TEST(Training, NeverDeadlocks) {
  for (uint32_t ranks = 1; ranks <= 8; ++ranks)
    for (uint32_t chunks = 1; chunks <= 4; ++chunks) {
      plan::Plan plan = chainPlan(chunks * ranks, ranks);
      addBackward(plan, [](const plan::Transfer &) { return true; });
      for (uint32_t microbatches = 1; microbatches <= 16; ++microbatches)
        for (TrainingSchedule schedule : kKinds)
          if (chunks == 1 || takesSeveralStages(schedule)) {
            const Pipeline pipeline{0, chunks * ranks, ranks, microbatches, chain(chunks * ranks)};
            EXPECT_EQ(messageOf(plan::checkSchedule(
                          plan, llvm::cantFail(makeTrainingSchedule(schedule, pipeline)))),
                      "no error")
                << nameOf(schedule).str() << " of " << microbatches << " on " << ranks << " ranks with "
                << chunks << " stages each";
          }
    }
}

TEST(Training, NeverDeadlocksWhateverStagesExchange) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Dice dice(seed);
    const TrainingSchedule kind = kKinds[dice.below(4)];
    SCOPED_TRACE(nameOf(kind).str() + ", seed " + std::to_string(seed));
    const uint32_t ranks = 1 + dice.below(6), microbatches = 1 + dice.below(9);
    const uint32_t stages = takesSeveralStages(kind) ? ranks + dice.below(9) : ranks;
    plan::Plan plan = randomPlan(dice, stages, ranks);
    // Gradients come back everywhere, or in some places.
    const bool isPart = dice.below(2);
    addBackward(plan, [&](const plan::Transfer &) { return !isPart || dice.below(3); });
    Pipeline pipeline{0, stages, ranks, microbatches, plan::transfers(plan, 0)};
    if (isPart)
      pipeline.gradientTransfers = plan::transfers(plan, 0, plan::Phase::BackwardInput);
    EXPECT_EQ(messageOf(plan::checkSchedule(plan, llvm::cantFail(makeTrainingSchedule(kind, pipeline)))),
              "no error");
  }
}
