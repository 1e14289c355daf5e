//===- ExecutorTest.cpp - What running a program costs --------------------===//
#include "runtime/executor/Executor.h"
#include "codegen/plan/PlanFile.h"
#include "runtime/device/MemoryAccount.h"
#include "tests/unit/runtime/Allocations.h"
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using plan::DType;
using plan::InstructionKind;

class ExecutorTest : public PlanTest {
protected:
  /// Readies the first program of `writer` for runs on this thread.
  void load(PlanWriter &writer) {
    writer.write(path("a.plan"));
    plan = llvm::cantFail(plan::readPlan(path("a.plan"))).plan;
    operators = std::make_unique<Operators>(*plan);
    weights = llvm::cantFail(WeightStore::load(
        *plan, llvm::cantFail(plan::openShards(*plan, path("a.plan"), {0u})).at(0), 0, c10::kCPU));
    executor =
        llvm::cantFail(Executor::load(*plan, *plan->programs[0], *weights, *operators, c10::kCPU, false));
  }

  /// The allocations of a run on `x` that is not the first.
  int64_t allocationsOfARun(const at::Tensor &x) {
    run(x);
    const int64_t before = allocationsOfThisThread();
    run(x);
    return allocationsOfThisThread() - before;
  }

  /// The program's first result on `x`.
  c10::IValue resultOn(const at::Tensor &x) {
    executor->setInput(0, x);
    executor->run({{}, cancelled}, outputs);
    c10::IValue result = outputs.front();
    outputs.clear();
    return result;
  }

  c10::InferenceMode inference;

private:
  void run(const at::Tensor &x) {
    executor->setInput(0, x);
    executor->run({{}, cancelled}, outputs);
    outputs.clear();
  }

  std::unique_ptr<plan::Plan> plan;
  std::unique_ptr<Operators> operators;
  std::optional<WeightStore> weights;
  std::unique_ptr<Executor> executor;
  const std::atomic<bool> cancelled{false};
  std::vector<c10::IValue> outputs;
};

TEST_F(ExecutorTest, AllocatesNothingForInstructionsLoopsAndBranches) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {4}));
  StageWriter &stage = writer.stage(0);
  const uint32_t x = stage.input(0), one = stage.constant(integer(1)), many = stage.constant(integer(50));
  uint32_t count = stage.call("aten::dim", {x});
  const uint32_t more = stage.call("aten::lt.int", {count, many});
  const uint32_t body = stage.block(
      2, [&](Slots params) { return Slots{more, stage.call("aten::add.int", {params[1], params[0]})}; });
  count = stage.emit(InstructionKind::Loop, {many, more, count}, 1, {body})[0];
  const uint32_t yes =
      stage.block(0, [&](Slots) { return Slots{stage.call("aten::mul.int", {count, many})}; });
  const uint32_t no = stage.block(0, [&](Slots) { return Slots{count}; });
  count = stage.emit(InstructionKind::If, {more}, 1, {yes, no})[0];
  for (int i = 0; i < 100; ++i)
    count = stage.call("aten::add.int", {count, one});
  stage.output(count);
  stage.output(x);
  writer.output("y", 0, 1);
  load(writer);
  EXPECT_EQ(allocationsOfARun(at::ones({4})), 0);
}

TEST_F(ExecutorTest, AllocatesNothingForListsOfNumbersThatNobodyKeeps) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {4}));
  StageWriter &stage = writer.stage(0);
  const uint32_t x = stage.input(0), two = stage.constant(integer(2)), many = stage.constant(integer(20));
  const uint32_t yes = stage.call("aten::lt.int", {two, many});
  const uint32_t body = stage.block(2, [&](Slots params) {
    return Slots{yes, stage.call("aten::len.t", {stage.list("int", {params[0], params[1], two})})};
  });
  const uint32_t length = stage.emit(InstructionKind::Loop, {many, yes, two}, 1, {body})[0];
  stage.output(stage.call("aten::len.t", {stage.list("int", {length, two})}));
  stage.output(x);
  writer.output("y", 0, 1);
  load(writer);
  EXPECT_EQ(allocationsOfARun(at::ones({4})), 0);
}

TEST_F(ExecutorTest, ListsThatAreKeptStayAsTheyAre) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {4}));
  StageWriter &stage = writer.stage(0);
  const uint32_t x = stage.input(0);
  const uint32_t list = stage.list("int", {stage.call("aten::size.int", {x, stage.constant(integer(0))})});
  stage.output(list);
  stage.output(x);
  writer.output("y", 0, 1);
  load(writer);
  const c10::IValue first = resultOn(at::ones({4})), second = resultOn(at::ones({5}));
  EXPECT_EQ(first.toListRef()[0].toInt(), 4);
  EXPECT_EQ(second.toListRef()[0].toInt(), 5);
}

TEST_F(ExecutorTest, AllocatesNothingBesideTheOperators) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {4}));
  StageWriter &stage = writer.stage(0);
  uint32_t value = stage.input(0);
  for (int i = 0; i < 100; ++i)
    value = stage.call("aten::neg", {value});
  stage.output(value);
  writer.output("y", 0, 0);
  load(writer);
  MemoryAccountRef account(new MemoryAccount("test"));
  ScopedAccount counted(*account);
  const at::Tensor x = at::ones({4});
  at::neg(x);
  const int64_t before = allocationsOfThisThread();
  at::neg(x);
  const int64_t ofOne = allocationsOfThisThread() - before;
  EXPECT_GT(ofOne, 0);
  EXPECT_EQ(allocationsOfARun(x), 100 * ofOne);
}

} // namespace cleave::runtime
