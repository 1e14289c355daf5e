//===- SetupWatchTest.cpp - Plans whose loading does not end --------------===//
#include "runtime/executor/SetupWatch.h"
#include "codegen/plan/PlanFile.h"
#include "runtime/executor/Executor.h"
#include "tests/unit/runtime/TestModels.h"
#include <future>

namespace cleave::runtime {

using Told = std::promise<std::string>;

class SetupWatchTest : public PlanTest {
protected:
  void SetUp() override {
    TwoLayers model;
    model.writer.write(path("a.plan"));
    plan = llvm::cantFail(plan::readPlan(path("a.plan"))).plan;
    operators.emplace(*plan);
    weights = llvm::cantFail(WeightStore::load(
        *plan, llvm::cantFail(plan::openShards(*plan, path("a.plan"), {0u})).at(0), 0, c10::kCPU));
    executor =
        llvm::cantFail(Executor::load(*plan, *plan->programs[0], *weights, *operators, c10::kCPU, false));
  }

  std::unique_ptr<plan::Plan> plan;
  std::optional<Operators> operators;
  std::optional<WeightStore> weights;
  std::unique_ptr<Executor> executor;
};

TEST_F(SetupWatchTest, TellsWhatIsBeingSetUp) {
  Told told;
  SetupWatch watch(std::chrono::seconds(1), [&](const std::string &message) { told.set_value(message); });
  SetupWatch::Scope scope(3, *executor);
  EXPECT_EQ(told.get_future().get(),
            "not loaded after 1 s: rank 3 (stage 0) prepares what requests read; allow "
            "more time (--load-timeout)");
}

/// Sessions of one process are opened by threads of their own.
TEST_F(SetupWatchTest, SeesItsOwnSessionAlone) {
  Told told;
  std::promise<void> isSetUp, isTold;
  std::thread other([&] {
    SetupWatch theirs(std::chrono::seconds(1000), [](const std::string &) { FAIL(); });
    SetupWatch::Scope scope(3, *executor);
    isSetUp.set_value();
    isTold.get_future().wait();
  });
  isSetUp.get_future().wait();
  SetupWatch watch(std::chrono::seconds(0), [&](const std::string &message) { told.set_value(message); });
  EXPECT_EQ(told.get_future().get(), "not loaded after 0 s: allow more time (--load-timeout)");
  isTold.set_value();
  other.join();
}

} // namespace cleave::runtime
