//===- ExecutorTest.cpp - What running a program costs --------------------===//
#include "runtime/Executor.h"
#include "codegen/plan/PlanFile.h"
#include "runtime/MemoryAccount.h"
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <cstdlib>
#include <gmock/gmock.h>
#include <new>

static thread_local int64_t allocations = 0;

// Counts what this program allocates, libtorch's part included. Not inlined: GCC would see `free` beside a
// `new`.
[[gnu::noinline]] void *operator new(size_t bytes) {
  ++allocations;
  if (void *memory = std::malloc(bytes))
    return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept { std::free(memory); }

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
    weights = llvm::cantFail(WeightStore::open(*plan, path("a.plan"), 0, c10::kCPU));
    executor =
        llvm::cantFail(Executor::load(*plan, *plan->programs[0], *weights, *operators, states, c10::kCPU, false));
  }

  /// The allocations of a run on `x` that is not the first.
  int64_t allocationsOfARun(const at::Tensor &x) {
    run(x);
    const int64_t before = allocations;
    run(x);
    return allocations - before;
  }

  c10::InferenceMode inference;

private:
  void run(const at::Tensor &x) {
    executor->setInput(0, x);
    executor->run({}, cancelled, outputs);
    outputs.clear();
  }

  std::unique_ptr<plan::Plan> plan;
  std::unique_ptr<Operators> operators;
  std::optional<WeightStore> weights;
  States states{0};
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
  const int64_t before = allocations;
  at::neg(x);
  const int64_t ofOne = allocations - before;
  EXPECT_GT(ofOne, 0);
  EXPECT_EQ(allocationsOfARun(x), 100 * ofOne);
}

} // namespace cleave::runtime
