//===- TensorParallelTest.cpp - Plans whose weights ranks share -----------===//
#include "codegen/plan/Schedule.h"
#include "runtime/device/DeviceWorker.h"
#include "runtime/session/Session.h"
#include "tests/unit/runtime/TestModels.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>
#include <atomic>
#include <gmock/gmock.h>
#include <map>
#include <thread>

namespace cleave::runtime {

using plan::DType;
using plan::InstructionKind;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

class TensorParallelTest : public PlanTest {};

namespace {
/// `y = linear(relu(linear(x, w0, b0)), w1, b1)` with `x : float32[batch, 8]` and 4 outputs: the first layer
/// split by its rows, the second one by its columns, the partial products added. With two `pipelineRanks`
/// (pipeline ranks) each layer is a stage of its own.
struct SplitLayers {
  SplitLayers(uint32_t tp, uint32_t pipelineRanks);
  at::Tensor expected(const at::Tensor &x) const {
    return at::linear(at::relu(at::linear(x, firstWeight, firstBias)), secondWeight) + secondBias;
  }
  /// Of the 18 values between the layers, in parts that are not all of one size.
  static std::vector<int64_t> rangeOf(uint32_t rank, uint32_t tp) {
    const int64_t begin = rank * 18 / tp;
    return {begin, (rank + 1) * 18 / tp - begin};
  }

  at::Tensor firstWeight = at::randn({18, 8}), firstBias = at::randn({18});
  at::Tensor secondWeight = at::randn({4, 18}), secondBias = at::randn({4});
  PlanWriter writer;
};
} // namespace

SplitLayers::SplitLayers(uint32_t tp, uint32_t pipelineRanks)
    : writer(pipelineRanks == 1 ? Slots{0} : Slots{0, 1}, tp) {
  writer.symbol("batch", 4);
  writer.input("x", tensorType(DType::Float, {-1, 8}));
  for (uint32_t rank = 0; rank < tp; ++rank) {
    StageWriter &first = writer.stage(0, rank), &second = writer.stage(pipelineRanks - 1, rank);
    const std::vector<int64_t> range = rangeOf(rank, tp);
    const uint32_t x = first.input(0), weight = first.shard("0.weight", firstWeight, 0, range);
    const uint32_t product =
        first.call("aten::linear", {x, weight, first.shard("0.bias", firstBias, 0, range)}, "0");
    uint32_t hidden = first.call("aten::relu", {product}, "0");
    if (pipelineRanks == 2) {
      first.output(hidden);
      hidden = second.receive(0, 0);
    }
    const uint32_t columns = second.shard("1.weight", secondWeight, 1, range);
    const uint32_t part = second.call("aten::linear", {hidden, columns, second.constant(none())}, "1");
    const uint32_t sum = second.call("spmd::all_reduce", {part}, "1");
    second.output(second.call("aten::add.Tensor",
                              {sum, second.weight("1.bias", secondBias), second.constant(integer(1))}, "1"));
  }
  writer.output("y", pipelineRanks - 1, 0);
}

TEST_F(TensorParallelTest, GivesWhatTorchGives) {
  for (uint32_t pipelineRanks : {1, 2})
    for (uint32_t tp : {2, 3, 4}) {
      SplitLayers model(tp, pipelineRanks);
      auto session = open(model.writer);
      for (int64_t batch : {1, 5, 9}) {
        const at::Tensor x = at::randn({batch, 8}), y = llvm::cantFail(session->run({x}))[0];
        EXPECT_TRUE(at::allclose(y, model.expected(x), 1e-5, 1e-5))
            << pipelineRanks << " pipeline ranks, tp " << tp;
        for (int i = 0; i < 20; ++i)
          EXPECT_TRUE(at::equal(llvm::cantFail(session->run({x}))[0], y)) << "the same bits each time";
      }
      EXPECT_EQ(session->statistics().size(), pipelineRanks * tp);
      llvm::sys::fs::remove_directories(path("a.plan"));
    }
}

/// The same on GPUs: two ranks on one, and on two where there are two.
class GpuGroupTest : public TensorParallelTest {
protected:
  void SetUp() override {
    std::string missing = failureOf(resolveDevices({"cuda:0"}, 1));
    if (!missing.empty())
      GTEST_SKIP() << missing;
    if (failureOf(resolveDevices({"cuda:0", "cuda:1"}, 2)).empty())
      groups.push_back({"cuda:0", "cuda:1"});
  }

  std::vector<std::vector<std::string>> groups{{"cuda:0", "cuda:0"}};
};

TEST_F(GpuGroupTest, AddsWithTheBitsOfCpus) {
  for (plan::DType dtype : {plan::DType::Float, plan::DType::BFloat16}) {
    PlanWriter writer({0}, 2);
    writer.input("x", tensorType(dtype, {7, 33}));
    for (uint32_t rank : {0, 1}) {
      StageWriter &stage = writer.stage(0, rank);
      const uint32_t x = stage.input(0),
                     part = rank == 0 ? x : stage.call("aten::mul.Scalar", {x, stage.constant(real(0.3))});
      stage.output(stage.call("spmd::all_reduce", {part}));
    }
    writer.output("y", 0, 0);
    const at::Tensor x = at::randn({7, 33}).to(dtype == plan::DType::Float ? at::kFloat : at::kBFloat16);
    const at::Tensor expected = llvm::cantFail(open(writer)->run({x}))[0];
    for (const std::vector<std::string> &devices : groups) {
      SessionOptions options;
      options.devices = devices;
      auto session = llvm::cantFail(Session::open(path("a.plan"), options));
      EXPECT_TRUE(at::equal(llvm::cantFail(session->run({x}))[0], expected)) << devices.back();
    }
    llvm::sys::fs::remove_directories(path("a.plan"));
  }
}

TEST_F(GpuGroupTest, GivesWhatTorchGives) {
  for (uint32_t pipelineRanks : {1, 2})
    for (const std::vector<std::string> &devices : groups) {
      SplitLayers model(2, pipelineRanks);
      SessionOptions options;
      for (uint32_t pipelineRank = 0; pipelineRank < pipelineRanks; ++pipelineRank)
        options.devices.insert(options.devices.end(), devices.begin(), devices.end());
      auto session = open(model.writer, options);
      for (int64_t batch : {1, 5, 9}) {
        const at::Tensor x = at::randn({batch, 8}), y = llvm::cantFail(session->run({x}))[0];
        EXPECT_LE(relativeError(y, model.expected(x)), 2e-6)
            << pipelineRanks << " pipeline ranks, " << devices.back();
        for (int i = 0; i < 20; ++i)
          EXPECT_TRUE(at::equal(llvm::cantFail(session->run({x}))[0], y)) << "the same bits each time";
      }
      session.reset();
      llvm::sys::fs::remove_directories(path("a.plan"));
    }
}

TEST_F(TensorParallelTest, SplitsTheBatch) {
  SplitLayers model(2, 2);
  model.writer.splitBatch(3);
  SessionOptions options;
  options.trace = true;
  auto session = open(model.writer, options);
  for (int64_t batch : {7, 2}) {
    const at::Tensor x = at::randn({batch, 8}), y = llvm::cantFail(session->run({x}))[0];
    EXPECT_TRUE(at::allclose(y, model.expected(x), 1e-5, 1e-5));
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(at::equal(llvm::cantFail(session->run({x}))[0], y));
    session->takeTrace();
  }
  llvm::cantFail(session->run({at::ones({3, 8})}));
  std::map<uint32_t, std::string> actions;
  for (const TraceEvent &event : session->takeTrace())
    actions[event.rank] += plan::toString(event.action) + " ";
  EXPECT_EQ(actions[0], "F0.0 S0.0>1 F0.1 S0.1>1 F0.2 S0.2>1 ");
  EXPECT_EQ(actions[1], actions[0]);
  EXPECT_EQ(actions[3], "R1.0<0 F1.0 R1.1<0 F1.1 R1.2<0 F1.2 ");
}

TEST_F(TensorParallelTest, TakesRequestsFromManyThreads) {
  SplitLayers model(2, 2);
  auto session = open(model.writer);
  std::atomic<int> right{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client)
    clients.emplace_back([&, client] {
      for (int i = 0; i < 25; ++i) {
        const at::Tensor x = at::full({1 + i % 3, 8}, client + 0.1 * i);
        auto outputs = session->run({x});
        right += outputs && at::allclose((*outputs)[0], model.expected(x), 1e-5, 1e-4);
      }
    });
  for (std::thread &client : clients)
    client.join();
  EXPECT_EQ(right, 100);
}

/// Tensor-parallel ranks take turns with different dimensions of `x : float32[n, 4]`: rows are gathered, then
/// exchanged for columns, whose sums every rank gets back.
TEST_F(TensorParallelTest, ExchangesInEveryWay) {
  PlanWriter writer({0}, 2);
  writer.input("x", tensorType(DType::Float, {6, 4}));
  for (int64_t rank : {0, 1}) {
    StageWriter &stage = writer.stage(0, rank);
    auto list = [&](std::vector<int64_t> numbers) { return stage.constant(integers(numbers)); };
    const uint32_t zero = stage.constant(integer(0)), one = stage.constant(integer(1)), x = stage.input(0);
    // 2 rows and 4.
    const uint32_t rows = stage.call(
        "spmd::shard", {x, zero, list(rank == 0 ? std::vector<int64_t>{0, 2} : std::vector<int64_t>{2, 4})});
    // 1 column and 3.
    const std::vector<int64_t> own = rank == 0 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{1, 3};
    const uint32_t columns =
        stage.call("spmd::all_to_all", {rows, zero, list({0, 0, 2, 1, 0, 4}), one, list(own)});
    const uint32_t whole = stage.call("spmd::all_gather", {columns, one, list({0, 0, 1, 1, 0, 3})});
    const uint32_t sum = stage.call("spmd::reduce_scatter", {whole, one, list(own)});
    stage.output(stage.call("spmd::all_gather", {sum, one, list({0, 0, 1, 1, 0, 3})}));
    stage.output(
        stage.call("spmd::broadcast", {stage.weight("w" + std::to_string(rank), at::full({2}, rank)), one}));
  }
  writer.output("y", 0, 0);
  writer.output("z", 0, 1);
  auto session = open(writer);
  const at::Tensor x = at::randn({6, 4});
  auto outputs = llvm::cantFail(session->run({x}));
  EXPECT_TRUE(at::equal(outputs[0], x * 2));
  EXPECT_TRUE(at::equal(outputs[1], at::ones({2})));
}

//===- States -------------------------------------------------------------===//

/// `sum += 2 * x.mean(); return sum`, as often as `x` has elements; each tensor-parallel rank has one mean.
/// The second stage fails unless `x` has two elements.
TEST_F(TensorParallelTest, EveryRankKeepsStates) {
  PlanWriter writer({0, 1}, 2);
  writer.symbol("n", 2);
  writer.input("x", tensorType(DType::Float, {-1}));
  for (uint32_t rank : {0, 1}) {
    StageWriter &first = writer.stage(0, rank), &second = writer.stage(1, rank);
    const uint32_t x = first.input(0),
                   before = first.readState("sum", first.weight("sum", at::full({1}, 10.f)));
    const uint32_t mean = first.call("aten::mean", {x, first.constant(none())});
    const uint32_t sum = first.call(
        "aten::add.Tensor", {before, first.call("spmd::all_reduce", {mean}), first.constant(integer(1))});
    first.writeState("sum", sum);
    first.output(first.call("aten::expand_as", {sum, x}));
    second.output(second.call("aten::view", {second.receive(0, 0), second.constant(integers({2}))}));
  }
  writer.output("y", 1, 0);
  auto session = open(writer);
  for (float sum : {12, 14}) {
    EXPECT_TRUE(at::equal(llvm::cantFail(session->run({at::ones({2})}))[0], at::full({2}, sum)));
    EXPECT_THAT(failureOf(session->run({at::ones({3})})), HasSubstr("(stage 1): aten::view"));
  }
  llvm::cantFail(session->resetState());
  EXPECT_TRUE(at::equal(llvm::cantFail(session->run({at::ones({2})}))[0], at::full({2}, 12.f)));
}

//===- Failures -----------------------------------------------------------===//

/// `y = x + x`; tensor-parallel rank 1 views `x` as pairs before.
static void writePairs(PlanWriter &writer) {
  writer.symbol("n", 4);
  writer.input("x", tensorType(DType::Float, {-1}));
  for (uint32_t rank : {0, 1}) {
    StageWriter &stage = writer.stage(0, rank);
    uint32_t x = stage.input(0);
    if (rank == 1) {
      x = stage.call("aten::view", {x, stage.constant(integers({-1, 2}))}, "head.pairs");
      x = stage.call("aten::view", {x, stage.constant(integers({-1}))});
    }
    stage.output(stage.call("spmd::all_reduce", {x}, "head"));
  }
  writer.output("y", 0, 0);
}

TEST_F(TensorParallelTest, FailureEndsTheWaitsOfTheOthers) {
  PlanWriter writer({0}, 2);
  writePairs(writer);
  auto session = open(writer);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(failureOf(session->run({at::ones({1001})})),
                StartsWith("rank 1 (stage 0): head.pairs: aten::view: shape '[-1, 2]' is invalid"));
    // The next request is not touched by it.
    EXPECT_TRUE(at::equal(llvm::cantFail(session->run({at::ones({1000})}))[0], at::full({1000}, 2.f)));
  }
  EXPECT_LE(session->statistics()[0].peakBytes, 2 * 4096)
      << "of the failed request and the next; others have given back theirs";
}

TEST_F(TensorParallelTest, RanksThatDisagreeAreNamed) {
  PlanWriter writer({0}, 2);
  writer.input("x", tensorType(DType::Float, {4}));
  for (uint32_t rank : {0, 1}) {
    StageWriter &stage = writer.stage(0, rank);
    const uint32_t part = stage.constant(integers({0, 2 + rank}));
    const uint32_t shard = stage.call("spmd::shard", {stage.input(0), stage.constant(integer(0)), part});
    stage.output(stage.call("spmd::all_reduce", {shard}, "net.2"));
  }
  writer.output("y", 0, 0);
  auto session = open(writer);
  const std::string found =
      " (stage 0): net.2: spmd::all_reduce: rank 1 calls all_reduce of float32[3], rank 0 calls "
      "all_reduce of float32[2]; expected the same call on all ranks of a group";
  EXPECT_THAT(failureOf(session->run({at::ones({4})})), AnyOf("rank 0" + found, "rank 1" + found));
}

TEST_F(TensorParallelTest, StuckRankFailsTheOthersAtTheDeadline) {
  PlanWriter writer({0}, 2);
  writer.input("x", tensorType(DType::Float, {2}));
  for (uint32_t rank : {0, 1}) {
    StageWriter &stage = writer.stage(0, rank);
    uint32_t x = stage.input(0);
    if (rank == 1) {
      // while true: pass
      plan::Constant always = integer(1);
      always.kind = plan::ConstantKind::Bool;
      const uint32_t yes = stage.constant(always);
      const uint32_t body = stage.block(2, [&](Slots params) { return Slots{yes, params[1]}; });
      x = stage.emit(InstructionKind::Loop, {stage.constant(integer(INT64_MAX)), yes, x}, 1, {body})[0];
    }
    stage.output(stage.call("spmd::all_reduce", {x}));
  }
  writer.output("y", 0, 0);
  SessionOptions options;
  options.timeout = std::chrono::seconds(1);
  auto session = open(writer, options);
  EXPECT_EQ(failureOf(session->run({at::ones({2})})),
            "no result after 1 s: rank 0 (stage 0) waits for rank 1, rank 1 (stage 0) is computing Loop; "
            "allow more time (--timeout)");
}

TEST_F(TensorParallelTest, RefusesGroupsOfCpusAndGpusAndOtherOperators) {
  SplitLayers model(2, 1);
  SessionOptions options;
  options.devices = {"cpu:0", "cuda:0"};
  EXPECT_EQ(openFailure(model.writer, options), "ranks 0 and 1 exchange tensors in one group on cpu:0 and "
                                                "cuda:0; pass --devices with CPUs only, or GPUs "
                                                "only, for its ranks");
  llvm::sys::fs::remove_directories(path("a.plan"));
  PlanWriter writer({0}, 2);
  writer.input("x", tensorType(DType::Float, {4}));
  for (uint32_t rank : {0, 1})
    writer.stage(0, rank).output(
        writer.stage(0, rank).call("spmd::all_add", {writer.stage(0, rank).input(0)}));
  writer.output("y", 0, 0);
  EXPECT_THAT(openFailure(writer), HasSubstr("this libtorch has no operator spmd::all_add"));
}

} // namespace cleave::runtime
