//===- ScheduleTest.cpp ---------------------------------------------------===//
#include "codegen/plan/Schedule.h"
#include "codegen/plan/Batch.h"
#include "codegen/plan/PlanFile.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>

namespace cleave::plan {

using Kind = ActionKind;

/// Replaces the actions of a rank by those named: `F0.1`, `S0.1>1`, `R1.0<0`.
static void setActions(Plan &plan, uint32_t rank, const std::vector<std::string> &names) {
  auto &actions = plan.schedules[0]->ranks[rank]->actions;
  actions.clear();
  for (const std::string &name : names) {
    static const std::vector<std::string> kinds = {"F", "B", "W", "N", "U", "S", "R", "SG", "RG", "A"};
    const size_t digit = name.find_first_of("0123456789"), dot = name.find_first_of(".:"),
                 peer = name.find_first_of("<>");
    auto kind = llvm::find(kinds, name.substr(0, digit));
    const uint32_t number = dot == std::string::npos ? 0 : std::stoul(name.substr(dot + 1));
    actions.push_back(makeAction(static_cast<Kind>(kind - kinds.begin()), std::stoul(name.substr(digit)),
                                 number, peer == std::string::npos ? 0 : std::stoul(name.substr(peer + 1))));
    if (*kind == "A")
      std::swap(actions.back()->microbatch, actions.back()->bucket);
    ASSERT_EQ(toString(*actions.back()), name);
  }
}

static std::string scheduleMessage(const Plan &plan) {
  return messageOf(checkSchedule(plan, *plan.schedules[0]));
}

static std::string messageWith(const std::vector<std::string> &first,
                               const std::vector<std::string> &second) {
  auto plan = makeTwoStagePlan();
  setActions(*plan, 0, first);
  setActions(*plan, 1, second);
  return scheduleMessage(*plan);
}

TEST(Schedule, TransfersFollowTheProgramInputs) {
  auto plan = makeTwoStagePlan();
  EXPECT_EQ(transfers(*plan, 0), (std::vector<Transfer>{{0, 1, {0}, {0}}}));
  EXPECT_TRUE(transfers(*plan, 1).empty());
}

TEST(Schedule, AcceptsForwardPipelines) {
  EXPECT_EQ(messageWith({"F0.0", "S0.0>1", "F0.1", "S0.1>1"}, {"R1.0<0", "F1.0", "R1.1<0", "F1.1"}), "");
  EXPECT_EQ(messageWith({"F0.1", "F0.0", "S0.1>1", "S0.0>1"}, {"R1.1<0", "R1.0<0", "F1.0", "F1.1"}), "");
}

static void addProgram(Plan &plan, uint32_t stage, Phase phase, std::vector<ProgramKey> sources) {
  auto program = std::make_unique<Program>();
  program->stage = stage;
  program->phase = phase;
  for (const ProgramKey &source : sources) {
    program->inputs.push_back(std::make_unique<ProgramInput>());
    program->inputs.back()->source = Source::Stage;
    program->inputs.back()->stage = source.stage;
    program->inputs.back()->phase = source.phase;
  }
  plan.programs.push_back(std::move(program));
}

/// The two stages train: gradients go back, stage 0 has weights to update, and bucket 0 its gradients.
static std::unique_ptr<Plan> makeTrainedStages() {
  auto plan = makeTwoStagePlan();
  addProgram(*plan, 0, Phase::BackwardInput, {{0, Phase::Forward}, {1, Phase::BackwardInput}});
  addProgram(*plan, 1, Phase::BackwardInput, {{1, Phase::Forward}});
  addProgram(*plan, 0, Phase::BackwardWeight, {{0, Phase::BackwardInput}});
  addProgram(*plan, 0, Phase::Update, {});
  plan->buckets.push_back(std::make_unique<Bucket>());
  plan->buckets[0]->kind = GroupKind::Data;
  plan->buckets[0]->parts.push_back(std::make_unique<BucketPart>());
  return plan;
}

static std::string trainingMessageWith(const std::vector<std::string> &first,
                                       const std::vector<std::string> &second) {
  auto plan = makeTrainedStages();
  setActions(*plan, 0, first);
  setActions(*plan, 1, second);
  return scheduleMessage(*plan);
}

TEST(Schedule, TransfersOfGradientsGoBackAndStashesStay) {
  auto plan = makeTrainedStages();
  EXPECT_EQ(transfers(*plan, 0), (std::vector<Transfer>{{0, 1, {0}, {0}}}));
  EXPECT_EQ(transfers(*plan, 0, Phase::BackwardInput),
            (std::vector<Transfer>{{1, 0, {0}, {1}, Phase::BackwardInput}}));
  const std::vector<Stash> kept = stashes(*plan, 0);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].stage, 0u);
  EXPECT_EQ(kept[0].from, Phase::Forward);
  EXPECT_EQ(kept[0].to, Phase::BackwardInput);
  EXPECT_EQ(kept[1].to, Phase::BackwardWeight);
  EXPECT_EQ(kept[2].stage, 1u);
}

static const std::vector<std::string> kTrainSecond = {"R1.0<0", "F1.0",    "R1.1<0", "F1.1",
                                                      "B1.0",   "SG1.0>0", "B1.1",   "SG1.1>0"};

TEST(Schedule, AcceptsTraining) {
  EXPECT_EQ(trainingMessageWith({"F0.0", "S0.0>1", "F0.1", "S0.1>1", "RG0.0<1", "B0.0", "W0.0", "RG0.1<1",
                                 "B0.1", "W0.1", "A0:0", "U0"},
                                kTrainSecond),
            "");
}

TEST(Schedule, FindsWrongOrdersOfTraining) {
  const std::vector<std::string> forward = {"F0.0", "S0.0>1", "F0.1", "S0.1>1"};
  auto with = [&](std::vector<std::string> rest) {
    rest.insert(rest.begin(), forward.begin(), forward.end());
    return trainingMessageWith(rest, kTrainSecond);
  };
  EXPECT_EQ(with({"B0.0"}), "schedule 'gpipe': B0.0 comes before RG0.0<1");
  EXPECT_EQ(with({"RG0.0<1", "W0.0"}), "schedule 'gpipe': W0.0 comes before B0.0");
  EXPECT_EQ(with({"RG0.0<1", "B0.0", "W0.0", "RG0.1<1", "B0.1", "A0:0", "W0.1"}),
            "schedule 'gpipe': A0:0 comes before every forward and backward of its stage");
  EXPECT_EQ(with({"RG0.0<1", "B0.0", "W0.0", "RG0.1<1", "B0.1", "W0.1", "U0"}),
            "schedule 'gpipe': U0 comes before the reduction of bucket 0");
  EXPECT_EQ(with({"RG0.0<1", "B0.0", "W0.0", "RG0.1<1", "B0.1", "W0.1", "A0:0"}),
            "schedule 'gpipe': stage 0 runs 0 times its update, expected 1 for 2 micro-batches");
  EXPECT_EQ(
      with({"RG0.0<1", "B0.0", "RG0.1<1", "B0.1"}),
      "schedule 'gpipe': stage 0 runs 0 times backward for its weights, expected 2 for 2 micro-batches");
  EXPECT_EQ(trainingMessageWith({"U0"}, {}),
            "schedule 'gpipe': U0 comes before every forward and backward of its stage");
  EXPECT_EQ(trainingMessageWith({"A0:1"}, {}),
            "schedule 'gpipe': rank 0: A0:1: the bucket does not exist or has nothing of this stage");
  EXPECT_EQ(messageWith({"F0.0", "B0.0"}, {}),
            "schedule 'gpipe': B0.0 comes before any program that it could run");
}

// Stage 0 adds to state 0, which its norm reads, and the norm to state 1.
TEST(Schedule, FindsWrongOrdersOfNorms) {
  auto plan = makeTrainedStages();
  for (uint32_t state : {0, 1}) {
    plan->states.push_back(std::make_unique<State>());
    plan->states[state]->scope = StateScope::Step;
  }
  addProgram(*plan, 0, Phase::Norm, {});
  plan->programs.back()->blocks.push_back(std::make_unique<Block>());
  auto adds = std::make_unique<Instruction>();
  adds->kind = InstructionKind::StateAccumulate;
  adds->op = 1;
  plan->programs.back()->blocks[0]->instructions.push_back(std::move(adds));
  plan->buckets[0]->parts[0]->states = {0};
  plan->buckets.push_back(std::make_unique<Bucket>());
  plan->buckets[1]->kind = GroupKind::Data;
  plan->buckets[1]->parts.push_back(std::make_unique<BucketPart>());
  plan->buckets[1]->parts[0]->states = {1};
  EXPECT_EQ(bucketsOfNorm(*plan, 0), (std::set<uint32_t>{1}));
  auto with = [&](const std::vector<std::string> &rest) {
    std::vector<std::string> actions = {"F0.0", "S0.0>1", "F0.1",    "S0.1>1", "RG0.0<1",
                                        "B0.0", "W0.0",   "RG0.1<1", "B0.1",   "W0.1"};
    actions.insert(actions.end(), rest.begin(), rest.end());
    setActions(*plan, 0, actions);
    setActions(*plan, 1, kTrainSecond);
    return scheduleMessage(*plan);
  };
  EXPECT_EQ(with({"A0:0", "N0", "A0:1", "U0"}), "");
  EXPECT_EQ(with({"N0", "A0:0", "A0:1", "U0"}),
            "schedule 'gpipe': N0 comes before the reduction of bucket 0");
  EXPECT_EQ(with({"A0:0", "A0:1", "N0", "U0"}), "schedule 'gpipe': A0:1 comes before the norm of its stage");
  EXPECT_EQ(with({"A0:0", "U0"}), "schedule 'gpipe': U0 comes before the norm of its stage");
  EXPECT_EQ(with({"A0:0", "N0", "U0"}), "schedule 'gpipe': U0 comes before the reduction of bucket 1");
  EXPECT_EQ(with({"A0:0", "N0", "A0:1"}),
            "schedule 'gpipe': stage 0 runs 0 times its update, expected 1 for 2 micro-batches");
}

// Both ranks sum two buckets, in opposite orders.
TEST(Schedule, FindsReductionsInDifferentOrders) {
  auto plan = makeTwoStagePlan();
  for (uint32_t i : {0, 1}) {
    plan->buckets.push_back(std::make_unique<Bucket>());
    plan->buckets[i]->kind = GroupKind::Tied;
    for (uint32_t stage : {0, 1}) {
      plan->buckets[i]->parts.push_back(std::make_unique<BucketPart>());
      plan->buckets[i]->parts[stage]->stage = stage;
    }
  }
  setActions(*plan, 0, {"A0:0"});
  EXPECT_EQ(scheduleMessage(*plan),
            "schedule 'gpipe': rank 0: A0:0: its signature has forward programs alone, which sum nothing");
  plan->programs.push_back(std::make_unique<Program>());
  plan->programs.back()->phase = Phase::Update;
  setActions(*plan, 0, {"A0:0"});
  setActions(*plan, 1, {});
  EXPECT_EQ(scheduleMessage(*plan),
            "schedule 'gpipe': A0:0 comes before every forward and backward of its stage");
  const std::vector<std::string> first = {"F0.0", "S0.0>1", "F0.1", "S0.1>1", "A0:0", "A0:1", "U0"};
  std::vector<std::string> second = {"R1.0<0", "F1.0", "R1.1<0", "F1.1", "A1:0", "A1:1"};
  setActions(*plan, 0, first);
  setActions(*plan, 1, second);
  EXPECT_EQ(scheduleMessage(*plan), "");
  std::swap(second[4], second[5]);
  setActions(*plan, 1, second);
  EXPECT_EQ(scheduleMessage(*plan),
            "schedule 'gpipe': it cannot finish: rank 0 at A0:0, rank 1 at A1:1 would wait for ever");
}

TEST(Schedule, FindsDeadlocksOfSendsThatWait) {
  EXPECT_EQ(messageWith({"F0.0", "F0.1", "S0.0>1", "S0.1>1"}, {"R1.1<0", "R1.0<0", "F1.0", "F1.1"}),
            "schedule 'gpipe': it cannot finish: rank 0 at S0.0>1, rank 1 at R1.1<0 would wait for ever");
}

// With buffers both sends would go through.
TEST(Schedule, FindsSendsThatFaceEachOther) {
  std::string message =
      trainingMessageWith({"F0.0", "S0.0>1", "F0.1", "S0.1>1", "RG0.0<1", "B0.0", "RG0.1<1", "B0.1"},
                          {"R1.0<0", "F1.0", "B1.0", "SG1.0>0", "R1.1<0", "F1.1", "B1.1", "SG1.1>0"});
  EXPECT_NE(message.find("rank 0 at S0.1>1, rank 1 at SG1.0>0"), std::string::npos) << message;
}

TEST(Schedule, FindsSendsAndReceivesWithoutTheOther) {
  EXPECT_NE(
      messageWith({"F0.0", "S0.0>1", "F0.1"}, {"R1.0<0", "F1.0", "R1.1<0", "F1.1"}).find("rank 1 at R1.1<0"),
      std::string::npos);
  EXPECT_EQ(messageWith({"F0.0", "S0.0>1", "F0.1", "S0.1>1"}, {"R1.0<0", "F1.0", "F1.1"}),
            "schedule 'gpipe': F1.1 comes before R1.1<0");
}

TEST(Schedule, FindsWrongOrders) {
  EXPECT_EQ(messageWith({"S0.0>1", "F0.0", "F0.1", "S0.1>1"}, {"R1.0<0", "F1.0", "R1.1<0", "F1.1"}),
            "schedule 'gpipe': S0.0>1 comes before F0.0");
  EXPECT_EQ(messageWith({"F0.0", "S0.0>1", "F0.1", "S0.1>1"}, {"F1.0", "R1.0<0", "R1.1<0", "F1.1"}),
            "schedule 'gpipe': F1.0 comes before R1.0<0");
  EXPECT_EQ(trainingMessageWith({"B0.0"}, {}), "schedule 'gpipe': B0.0 comes before F0.0");
}

TEST(Schedule, FindsStagesThatRunTooSeldomOrTwice) {
  EXPECT_EQ(messageWith({"F0.0", "S0.0>1"}, {"R1.0<0", "F1.0"}),
            "schedule 'gpipe': stage 0 runs 1 times forward, expected 2 for 2 micro-batches");
  EXPECT_EQ(messageWith({"F0.0", "F0.0"}, {}), "schedule 'gpipe': F0.0 stands there twice");
}

TEST(Schedule, RefusesMicrobatchesOfNoBatch) {
  auto plan = makeTwoStagePlan();
  plan->signatures[0]->batch = -1;
  EXPECT_EQ(scheduleMessage(*plan), "schedule 'gpipe': 2 micro-batches of a signature without a batch");
}

TEST(Schedule, RefusesActionsThatDoNotBelong) {
  EXPECT_EQ(messageWith({"F1.0"}, {}),
            "schedule 'gpipe': rank 0: F1.0 is of a stage that is not on this rank");
  EXPECT_EQ(messageWith({"F9.0"}, {}),
            "schedule 'gpipe': rank 0: F9.0 is of a stage that is not on this rank");
  EXPECT_EQ(messageWith({"F0.2"}, {}), "schedule 'gpipe': rank 0: F0.2: there are 2 micro-batches");
  EXPECT_NE(messageWith({"S0.0>0"}, {}).find("the other stage does not exist or is on the same rank"),
            std::string::npos);
  EXPECT_NE(messageWith({"S0.0>7"}, {}).find("the other stage does not exist"), std::string::npos);
}

TEST(Schedule, RefusesMissingRanks) {
  auto plan = makeTwoStagePlan();
  plan->schedules[0]->ranks.pop_back();
  EXPECT_EQ(scheduleMessage(*plan), "schedule 'gpipe': actions for 1 ranks, the mesh has 2");
}

// Both stages on one rank: values are handed over there.
TEST(Schedule, NeedsNoTransportWithinARank) {
  auto plan = makeTwoStagePlan();
  plan->mesh->pp = 1;
  plan->stages[1]->ranks = {0};
  plan->schedules[0]->ranks.pop_back();
  setActions(*plan, 0, {"F0.0", "F1.0", "F0.1", "F1.1"});
  EXPECT_EQ(scheduleMessage(*plan), "");
  setActions(*plan, 0, {"F1.0", "F0.0", "F0.1", "F1.1"});
  EXPECT_EQ(scheduleMessage(*plan), "schedule 'gpipe': F1.0 comes before F0.0");
}

TEST(Schedule, RanksOfOneStageActAlike) {
  auto plan = makeTwoStagePlan();
  plan->mesh->pp = 1;
  plan->mesh->dp = 2;
  for (auto &stage : plan->stages)
    stage->ranks = {0, 1};
  setActions(*plan, 0, {"F0.0", "F1.0", "F0.1", "F1.1"});
  setActions(*plan, 1, {"F0.0", "F0.1", "F1.0", "F1.1"});
  EXPECT_EQ(scheduleMessage(*plan),
            "schedule 'gpipe': rank 1 does not act as rank 0, which has the same stages");
  setActions(*plan, 1, {"F0.0", "F1.0", "F0.1", "F1.1"});
  EXPECT_EQ(scheduleMessage(*plan), "");
  plan->signatures[0]->batch = -1;
  EXPECT_EQ(scheduleMessage(*plan), "schedule 'gpipe': 4 micro-batches of a signature without a batch");
  plan->schedules[0]->microbatches = 1u << 31;
  EXPECT_EQ(scheduleMessage(*plan),
            "schedule 'gpipe': 4294967296 micro-batches of all data-parallel ranks, expected less than 2^32");
}

TEST(Schedule, DataRanksTakeMicrobatchesInTurn) {
  auto plan = makeTwoStagePlan();
  plan->mesh->dp = 3;
  plan->mesh->tp = 2;
  EXPECT_EQ(microbatchesOfAll(*plan, *plan->schedules[0]), 6u);
  // Ranks 6 to 11 are the second stage's.
  for (uint32_t rank = 0; rank < 12; ++rank) {
    EXPECT_EQ(tpRankOf(*plan, rank), rank % 2);
    EXPECT_EQ(dpRankOf(*plan, rank), rank / 2 % 3);
    EXPECT_EQ(globalMicrobatch(*plan, rank, 0), rank / 2 % 3);
    EXPECT_EQ(globalMicrobatch(*plan, rank, 1), 3 + rank / 2 % 3);
  }
}

} // namespace cleave::plan
