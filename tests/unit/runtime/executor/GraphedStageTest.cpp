//===- GraphedStageTest.cpp - Programs captured once and replayed ---------===//
// Runs without a GPU: a fake device and plugin count calls. GpuTest checks what replays compute.
#include "runtime/executor/GraphedStage.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/PlanFile.h"
#include "tests/unit/runtime/FakeGpu.h"
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using at::Tensor;
using plan::DType;

class GraphedStageTest : public PlanTest {
public:
  /// `y = write(x)` of `x : float32[n]` and the size `n`.
  using Write = std::function<uint32_t(StageWriter &, uint32_t x, uint32_t n)>;

protected:
  explicit GraphedStageTest(const Write &write = [](StageWriter &stage, uint32_t x,
                                                    uint32_t) { return stage.call("aten::neg", {x}, "net"); })
      : writer({0}) {
    const uint32_t n = writer.symbol("n", 4);
    writer.input("x", tensorType(DType::Float, {-1}));
    StageWriter &stage = writer.stage(0);
    const uint32_t x = stage.input(0);
    stage.output(write(stage, x, stage.size(plan::symbolDim(n))));
    writer.output("y", 0, 0);
    writer.write(path("a.plan"));
    operators = std::make_unique<Operators>(*writer.plan);
    const plan::Program &program = *writer.plan->programs[0];
    weights = std::make_unique<WeightStore>(llvm::cantFail(WeightStore::load(
        *writer.plan, llvm::cantFail(plan::openShards(*writer.plan, path("a.plan"), {0u})).at(0), 0,
        fakeGpu(0))));
    executor = llvm::cantFail(Executor::load(*writer.plan, program, *weights, *operators, fakeGpu(0),
                                             /*checkTypes=*/false, &plugin));
    graph = std::make_unique<GraphedStage>(*writer.plan, program, *executor, plugin, fakeGpu(0));
  }

  Tensor run(const Tensor &x) { return run(x, x.size(0)); }
  Tensor run(const Tensor &x, int64_t n) {
    std::vector<c10::IValue> inputs = {x}, outputs;
    graph->run(inputs, {{n}, never}, outputs);
    EXPECT_TRUE(inputs[0].isNone() || inputs[0].isTensor());
    return outputs.at(0).toTensor();
  }

  const c10::InferenceMode inference;
  const std::atomic<bool> never{false};
  PlanWriter writer;
  FakePlugin plugin;
  std::unique_ptr<Operators> operators;
  std::unique_ptr<WeightStore> weights;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<GraphedStage> graph;
};

TEST_F(GraphedStageTest, CapturesTheThirdRunOfEachSize) {
  for (int64_t size : {4, 5}) {
    plugin.captures = plugin.replays = 0;
    const Tensor x = at::rand({size});
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(at::equal(run(x).cpu(), -x));
    EXPECT_EQ(plugin.captures, 0);
    const Tensor first = run(x), second = run(x);
    EXPECT_TRUE(at::equal(first.cpu(), -x));
    EXPECT_FALSE(first.is_alias_of(second)) << "the next replay would write over it";
    EXPECT_EQ(plugin.captures, 1);
    EXPECT_EQ(plugin.replays, 2);
  }
  EXPECT_EQ(graph->obstacle(), "");
}

TEST_F(GraphedStageTest, RunsOnWhereCapturingFails) {
  plugin.failure = "operation not permitted when stream is capturing";
  const Tensor x = at::rand({4});
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(at::equal(run(x).cpu(), -x));
  EXPECT_EQ(plugin.captures, 1);
  EXPECT_EQ(graph->obstacle(), "capturing it failed: operation not permitted when stream is capturing");
}

TEST_F(GraphedStageTest, SizesSeenOnceLeaveRoomForOthers) {
  for (int64_t size = 1; size < 20; ++size)
    run(at::rand({size}));
  for (int i = 0; i < 3; ++i)
    run(at::rand({4}));
  EXPECT_EQ(plugin.captures, 1);
}

TEST_F(GraphedStageTest, InstructionsAreRangesOfProfiles) {
  run(at::rand({4}));
  EXPECT_THAT(plugin.ranges, testing::ElementsAre("net: aten::neg", "end"));
}

/// Programs that are never captured.
class GraphedStageObstacles : public GraphedStageTest {
protected:
  using GraphedStageTest::GraphedStageTest;
  void expectEager(const std::string &obstacle) {
    EXPECT_EQ(graph->obstacle(), obstacle);
    for (int i = 0; i < 4; ++i)
      run(at::rand({4}));
    EXPECT_EQ(plugin.captures, 0);
  }
};

struct RandomGraphTest : GraphedStageObstacles {
  RandomGraphTest()
      : GraphedStageObstacles([](StageWriter &stage, uint32_t x, uint32_t) {
          const uint32_t nothing = stage.constant(none());
          return stage.call("aten::rand_like", {x, nothing, nothing, nothing, nothing, nothing});
        }) {}
};
TEST_F(RandomGraphTest, IsNotCaptured) { expectEager("it draws random numbers (aten::rand_like)"); }

struct DependentGraphTest : GraphedStageObstacles {
  DependentGraphTest()
      : GraphedStageObstacles(
            [](StageWriter &stage, uint32_t x, uint32_t) { return stage.call("aten::nonzero", {x}); }) {}
};
TEST_F(DependentGraphTest, IsNotCaptured) {
  expectEager("what it calls depends on contents of tensors (aten::nonzero)");
}

static plan::Constant no() {
  plan::Constant constant = integer(0);
  constant.kind = plan::ConstantKind::Bool;
  return constant;
}

/// Attention over `x` with this chance of dropping a part out.
static GraphedStageTest::Write attention(double chance) {
  return [chance](StageWriter &stage, uint32_t x, uint32_t) {
    const uint32_t nothing = stage.constant(none());
    const uint32_t q = stage.call("aten::view", {x, stage.constant(integers({1, 1, 4, 1}))});
    return stage.call("aten::scaled_dot_product_attention",
                      {q, q, q, nothing, stage.constant(real(chance)), stage.constant(no()), nothing,
                       stage.constant(no())});
  };
}

struct AttentionGraphTest : GraphedStageObstacles {
  AttentionGraphTest() : GraphedStageObstacles(attention(0)) {}
};
TEST_F(AttentionGraphTest, IsCapturedWithoutDropout) { EXPECT_EQ(graph->obstacle(), ""); }

struct DropoutGraphTest : GraphedStageObstacles {
  DropoutGraphTest() : GraphedStageObstacles(attention(0.5)) {}
};
TEST_F(DropoutGraphTest, IsNotCaptured) {
  EXPECT_EQ(graph->obstacle(), "it draws random numbers (aten::scaled_dot_product_attention)");
}

struct IndexedGraphTest : GraphedStageTest {
  IndexedGraphTest()
      : GraphedStageTest([](StageWriter &stage, uint32_t x, uint32_t) {
          return stage.call("aten::index.Tensor",
                            {x, stage.list("Tensor?", {stage.weight("places", at::tensor({2, 0}))})});
        }) {}
};
TEST_F(IndexedGraphTest, IsCaptured) {
  const Tensor x = at::rand({4});
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(at::equal(run(x).cpu(), at::stack({x[2], x[0]})));
  EXPECT_EQ(plugin.captures, 1);
}

/// Of a size that none of the inputs has.
struct SizedGraphTest : GraphedStageTest {
  SizedGraphTest()
      : GraphedStageTest([](StageWriter &stage, uint32_t x, uint32_t n) {
          return stage.call("aten::expand", {x, stage.list("int", {n}), stage.constant(no())});
        }) {}
};
TEST_F(SizedGraphTest, IsCapturedForEachSize) {
  const Tensor x = at::rand({1});
  for (int i = 0; i < 4; ++i)
    for (int64_t n : {3, 5})
      EXPECT_EQ(run(x, n).size(0), n);
  EXPECT_EQ(plugin.captures, 2);
}

} // namespace cleave::runtime
