//===- SimulateTest.cpp - Plans that `cleave simulate` is given -----------===//
#include "codegen/plan/EncodePlan.h"
#include "codegen/plan/PlanFile.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "tests/unit/tools/RunCleave.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/JSON.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cleave {

using namespace plan;
using testing::EndsWith;

/// What the command says of the two-stage plan, with times and a link, once `change` has been made.
static Outcome simulateWith(llvm::function_ref<void(Plan &)> change,
                            std::vector<llvm::StringRef> options = {}) {
  TestFolder folder;
  std::unique_ptr<Plan> plan = writeTwoStagePlan(folder.path());
  plan->link = std::make_unique<LinkSpeed>();
  plan->link->latency_seconds = 0.25;
  plan->link->bytes_per_second = 512;
  for (auto &prediction : plan->predictions) {
    prediction->microbatch_seconds = 1 + prediction->stage;
    prediction->activation_bytes = 300 + prediction->stage;
  }
  plan->programs[1]->types.push_back(std::make_unique<SlotType>(*plan->programs[0]->types[0]));
  plan->programs[1]->types[0]->slot = 0;
  change(*plan);
  const std::vector<uint8_t> bytes = encode(*plan);
  writeFile(folder.at(kPlanFileName), {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
  options.insert(options.begin(), {"simulate", folder.path()});
  return runCleave(options);
}

TEST(Simulate, RunsThePlansTable) {
  const Outcome outcome = simulateWith([](Plan &) {}, {"--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const llvm::json::Value value = llvm::cantFail(llvm::json::parse(outcome.out));
  const llvm::json::Object &report = *value.getAsObject();
  // Two samples of 16 numbers take 0.25 + 128/512 s. F0.0 S0.0 F0.1, then S0.1 waits for F1.0; F1.1.
  EXPECT_EQ(report.getNumber("seconds"), 1 + 0.5 + 2 + 0.5 + 2);
  EXPECT_EQ((*report.getArray("transfers"))[0].getAsObject()->getInteger("bytes"), 128);
  const llvm::json::Object &device = *(*report.getArray("devices"))[1].getAsObject();
  EXPECT_EQ(device.getNumber("busy_seconds"), 4);
  EXPECT_EQ(device.getNumber("idle_seconds"), 2);
  EXPECT_EQ(device.getInteger("peak_bytes"), 256 + 301);
}

/// Of the way there; nothing comes back.
TEST(Simulate, SendsOverTheLinkOfTheTwoRanks) {
  for (auto [from, sent] : {std::pair(0, 2.5), {1, 0.5}}) {
    const Outcome outcome = simulateWith(
        [from = from](Plan &plan) {
          auto link = std::make_unique<LinkOverride>();
          link->from = from;
          link->to = 1 - from;
          link->speed = std::make_unique<LinkSpeed>();
          link->speed->latency_seconds = 2;
          link->speed->bytes_per_second = 256;
          plan.link_overrides.push_back(std::move(link));
        },
        {"--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const llvm::json::Value value = llvm::cantFail(llvm::json::parse(outcome.out));
    EXPECT_EQ(value.getAsObject()->getNumber("seconds"), 1 + sent + 2 + sent + 2);
  }
}

TEST(Simulate, WantsTimes) {
  for (auto change :
       {+[](Plan &plan) { plan.link = nullptr; }, +[](Plan &plan) { plan.predictions.pop_back(); }}) {
    const Outcome outcome = simulateWith(change);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err,
                EndsWith(": does not say what its micro-batches take; compile it again with this version\n"));
  }
}

TEST(Simulate, HasNoTimesOfBackwardPasses) {
  const Outcome outcome = simulateWith([](Plan &plan) { plan = std::move(*makeTrainingPlan()); });
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err,
              EndsWith(": has backward passes, whose times plans of this version do not predict\n"));
}

TEST(Simulate, RefusesAmountsThatNothingHas) {
  const Outcome times = simulateWith([](Plan &plan) { plan.predictions[1]->microbatch_seconds = 1e300; });
  EXPECT_EQ(times.status, 1);
  EXPECT_THAT(times.err, EndsWith(": predicts more than 1e9 seconds in all; compile it again\n"));
  const Outcome bytes = simulateWith([](Plan &plan) { plan.predictions[0]->weight_bytes = INT64_MAX; });
  EXPECT_EQ(bytes.status, 1);
  EXPECT_THAT(bytes.err, EndsWith(": predicts more than 2^44 bytes in a stage; compile it again\n"));
}

} // namespace cleave
