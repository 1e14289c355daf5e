//===- StageGraphTest.cpp - Programs captured once and replayed -----------===//
// Without a GPU: on a device and with a plugin that count what they are asked for.
#include "runtime/StageGraph.h"
#include "tests/unit/runtime/FakeGpu.h"
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace cleave::runtime {

using at::Tensor;
using plan::DType;

namespace {
/// Does what it captures, and nothing when that is replayed.
class CountingPlugin final : public DevicePlugin {
public:
  int start() override { return 1; }
  void open(int) override {}
  int64_t peakBytes(int) const override { return 0; }
  void beginRange(const char *name) override { ranges.push_back(name); }
  void endRange() override { ranges.push_back("end"); }
  std::string identify(int) const override { return "GPU-0"; }
  c10::intrusive_ptr<c10d::Backend> connect(int, c10::intrusive_ptr<c10d::Store>, int, int) const override {
    return {};
  }
  std::unique_ptr<DeviceGraph> capture(int, const std::function<void()> &work) override {
    ++captures;
    work();
    if (!failure.empty())
      throw std::runtime_error(failure);
    return std::make_unique<Graph>(*this);
  }

  int captures = 0, replays = 0;
  std::string failure;
  std::vector<std::string> ranges;

private:
  struct Graph final : DeviceGraph {
    explicit Graph(CountingPlugin &plugin) : plugin(plugin) {}
    void replay() override { ++plugin.replays; }
    CountingPlugin &plugin;
  };
};
} // namespace

class StageGraphTest : public PlanTest {
protected:
  /// `y = operation(x, …)` of `x : float32[n]`.
  explicit StageGraphTest(const std::string &operation = "aten::neg", size_t nones = 0) : writer({0}) {
    writer.symbol("n", 4);
    writer.input("x", tensorType(DType::Float, {-1}));
    StageWriter &stage = writer.stage(0);
    std::vector<uint32_t> operands = {stage.input(0)};
    for (size_t i = 0; i < nones; ++i)
      operands.push_back(stage.constant(none()));
    stage.output(stage.call(operation, operands, "net"));
    writer.output("y", 0, 0);
    writer.write(path("a.plan"));
    operators = std::make_unique<Operators>(*writer.plan);
    const plan::Program &program = *writer.plan->programs[0];
    weights = std::make_unique<WeightStore>(
        llvm::cantFail(WeightStore::open(*writer.plan, path("a.plan"), 0, fakeGpu(0))));
    executor = llvm::cantFail(Executor::load(*writer.plan, program, *weights, *operators, states, fakeGpu(0),
                                             /*checkTypes=*/false, &plugin));
    graph = std::make_unique<StageGraph>(*writer.plan, program, *executor, plugin, fakeGpu(0));
  }

  Tensor run(const Tensor &x) {
    std::vector<c10::IValue> inputs = {x}, outputs;
    graph->run(inputs, {x.size(0)}, never, outputs);
    EXPECT_TRUE(inputs[0].isNone() || inputs[0].isTensor());
    return outputs.at(0).toTensor();
  }

  const c10::InferenceMode inference;
  const std::atomic<bool> never{false};
  PlanWriter writer;
  CountingPlugin plugin;
  States states{0};
  std::unique_ptr<Operators> operators;
  std::unique_ptr<WeightStore> weights;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<StageGraph> graph;
};

TEST_F(StageGraphTest, CapturesTheThirdRunOfEachSize) {
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

TEST_F(StageGraphTest, RunsOnWhereCapturingFails) {
  plugin.failure = "operation not permitted when stream is capturing";
  const Tensor x = at::rand({4});
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(at::equal(run(x).cpu(), -x));
  EXPECT_EQ(plugin.captures, 1);
  EXPECT_EQ(graph->obstacle(), "capturing it failed: operation not permitted when stream is capturing");
}

TEST_F(StageGraphTest, InstructionsAreRangesOfProfiles) {
  run(at::rand({4}));
  EXPECT_THAT(plugin.ranges, testing::ElementsAre("net: aten::neg", "end"));
}

/// Programs that are never captured.
class StageGraphObstacles : public StageGraphTest {
protected:
  using StageGraphTest::StageGraphTest;
  void expectEager(const std::string &obstacle) {
    EXPECT_EQ(graph->obstacle(), obstacle);
    for (int i = 0; i < 4; ++i)
      run(at::rand({4}));
    EXPECT_EQ(plugin.captures, 0);
  }
};

struct RandomGraphTest : StageGraphObstacles {
  RandomGraphTest() : StageGraphObstacles("aten::rand_like", 5) {}
};
TEST_F(RandomGraphTest, IsNotCaptured) { expectEager("it draws random numbers (aten::rand_like)"); }

struct DependentGraphTest : StageGraphObstacles {
  DependentGraphTest() : StageGraphObstacles("aten::nonzero") {}
};
TEST_F(DependentGraphTest, IsNotCaptured) {
  expectEager("what it calls depends on contents of tensors (aten::nonzero)");
}

} // namespace cleave::runtime
