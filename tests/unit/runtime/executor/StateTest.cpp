//===- StateTest.cpp - What a plan keeps from request to request ----------===//
#include "runtime/session/Session.h"
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <thread>

namespace cleave::runtime {

using plan::DType;
using plan::InstructionKind;

class StateTest : public PlanTest {
protected:
  static at::Tensor ones() { return at::ones({2}); }
  static at::Tensor run(Session &session, const at::Tensor &x) { return llvm::cantFail(session.run({x}))[0]; }
};

/// `sum += x.mean(); return sum`, as often as `x` has elements, from 10 on. The second stage fails where `x`
/// is not of two elements: it views it so.
static void writeSum(PlanWriter &writer) {
  writer.symbol("n", 2);
  writer.input("x", tensorType(DType::Float, {-1}));
  StageWriter &first = writer.stage(0), &second = writer.stage(1);
  uint32_t x = first.input(0), before = first.readState("sum", first.weight("sum", at::full({1}, 10.f)));
  uint32_t mean = first.call("aten::mean", {x, first.constant(none())});
  uint32_t sum = first.call("aten::add.Tensor", {before, mean, first.constant(integer(1))});
  first.writeState("sum", sum);
  first.output(first.call("aten::expand_as", {sum, x}));
  second.output(second.call("aten::view", {second.receive(0, 0), second.constant(integers({2}))}));
  writer.output("y", 1, 0);
}

TEST_F(StateTest, PassesFromRequestToRequest) {
  PlanWriter writer({0, 1});
  writeSum(writer);
  auto session = open(writer);
  for (float sum : {11, 12, 13})
    EXPECT_TRUE(at::equal(run(*session, ones()), at::full({2}, sum)));
  // Another session begins anew.
  auto other = llvm::cantFail(Session::open(path("a.plan")));
  EXPECT_TRUE(at::equal(run(*other, ones()), at::full({2}, 11.f)));
}

TEST_F(StateTest, IsResetToWhatWasSaved) {
  PlanWriter writer({0, 1});
  writeSum(writer);
  auto session = open(writer);
  run(*session, ones());
  EXPECT_EQ(failureOf(session->resetState()), "");
  EXPECT_TRUE(at::equal(run(*session, ones()), at::full({2}, 11.f)));
}

TEST_F(StateTest, StaysAsItWasWhereARequestFails) {
  PlanWriter writer({0, 1});
  writeSum(writer);
  auto session = open(writer);
  run(*session, ones());
  // Stage 0 has written its state when stage 1 fails.
  EXPECT_THAT(failureOf(session->run({at::ones({3})})), testing::HasSubstr("rank 1 (stage 1): aten::view: "));
  EXPECT_TRUE(at::equal(run(*session, ones()), at::full({2}, 12.f)));
}

TEST_F(StateTest, IsSeenByRequestsOneAfterTheOther) {
  PlanWriter writer({0, 1});
  writeSum(writer);
  SessionOptions options;
  options.maxInFlight = 8;
  auto session = open(writer, options);
  std::vector<std::unique_ptr<Session::Pending>> pending;
  for (int i = 0; i < 20; ++i)
    pending.push_back(llvm::cantFail(session->start({ones()})));
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(at::equal(llvm::cantFail(pending[i]->wait())[0], at::full({2}, 11.f + i)));
  // Also from many threads, where the order is theirs.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 10; ++j)
        run(*session, ones());
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_TRUE(at::equal(run(*session, ones()), at::full({2}, 71.f)));
}

TEST_F(StateTest, IsNotTheCallersMemory) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {2}));
  StageWriter &stage = writer.stage(0);
  uint32_t x = stage.input(0);
  stage.output(stage.readState("last", stage.weight("last", at::zeros({2}))));
  stage.writeState("last", x);
  writer.output("y", 0, 0);
  auto session = open(writer);
  // As who may write what comes out.
  c10::InferenceMode inference;
  at::Tensor mine = ones();
  run(*session, mine);
  mine.fill_(7);
  at::Tensor given = run(*session, mine);
  EXPECT_TRUE(at::equal(given, ones()));
  given.fill_(8);
  EXPECT_TRUE(at::equal(run(*session, ones()), at::full({2}, 7.f)));
}

/// The weight, the present value and the next one; no copy beside the value that is written.
TEST_F(StateTest, TakesAValueThatNothingElseRefersTo) {
  constexpr int64_t count = 1 << 18, bytes = 4 * count;
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {count}));
  StageWriter &stage = writer.stage(0);
  uint32_t next =
      stage.call("aten::add.Tensor", {stage.readState("sum", stage.weight("sum", at::zeros({count}))),
                                      stage.input(0), stage.constant(integer(1))});
  stage.output(stage.call("aten::mean", {next, stage.constant(none())}));
  stage.writeState("sum", next);
  writer.output("y", 0, 0);
  auto session = open(writer);
  for (float mean : {1, 2, 3})
    EXPECT_EQ(run(*session, at::ones({count})).item<float>(), mean);
  const DeviceStatistics device = session->statistics().at(0);
  EXPECT_GE(device.peakBytes, 3 * bytes);
  EXPECT_LT(device.peakBytes, 3 * bytes + bytes / 2);
}

TEST_F(StateTest, IsWrittenInABranch) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {1}));
  StageWriter &stage = writer.stage(0);
  uint32_t x = stage.input(0), largest = stage.readState("largest", stage.weight("largest", at::zeros({1})));
  uint32_t isMore = stage.call("aten::Bool.Tensor", {stage.call("aten::gt.Tensor", {x, largest})});
  uint32_t yes = stage.block(0, [&](Slots) {
    stage.writeState("largest", x);
    return Slots{};
  });
  uint32_t no = stage.block(0, [](Slots) { return Slots{}; });
  stage.emit(InstructionKind::If, {isMore}, 0, {yes, no});
  stage.output(stage.call("aten::sub.Tensor", {x, largest, stage.constant(integer(1))}));
  writer.output("y", 0, 0);
  auto session = open(writer);
  std::vector<float> differences;
  for (float value : {3, 2, 5, 1})
    differences.push_back(run(*session, at::full({1}, value)).item<float>());
  EXPECT_EQ(differences, (std::vector<float>{3, -1, 2, -4}));
}

} // namespace cleave::runtime
