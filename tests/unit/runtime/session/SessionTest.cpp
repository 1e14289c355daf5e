//===- SessionTest.cpp - Opening and running plans ------------------------===//
#include "runtime/session/Session.h"
#include "codegen/plan/Schedule.h"
#include "tests/unit/runtime/Allocations.h"
#include "tests/unit/runtime/TestModels.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using plan::DType;
using plan::InstructionKind;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class SessionTest : public PlanTest {};

/// `y = x + 1`, whose stage 1 throws where a size of `x` is odd: it views `x` as pairs.
static void writePairs(PlanWriter &writer) {
  writer.symbol("n", 4);
  writer.input("x", tensorType(DType::Float, {-1}));
  StageWriter &first = writer.stage(0), &second = writer.stage(1);
  first.output(first.call("aten::add.Scalar",
                          {first.input(0), first.constant(integer(1)), first.constant(integer(1))}));
  uint32_t shape = second.constant(integers({-1, 2}));
  second.output(second.call("aten::view", {second.receive(0, 0), shape}, "head.pairs"));
  writer.output("y", 1, 0);
}

TEST_F(SessionTest, GivesWhatTorchGives) {
  TwoLayers model;
  auto session = open(model.writer);
  at::Tensor x = at::randn({3, 8});
  auto outputs = session->run({x});
  ASSERT_TRUE(bool(outputs));
  EXPECT_TRUE(at::equal((*outputs)[0], model.expected(x)));
}

TEST_F(SessionTest, RunsOtherSizesOfNamedDimensions) {
  TwoLayers model;
  auto session = open(model.writer);
  for (int64_t batch : {1, 5, 17}) {
    at::Tensor x = at::randn({batch, 8});
    EXPECT_TRUE(at::allclose(llvm::cantFail(session->run({x}))[0], model.expected(x), 1e-5, 1e-5));
  }
}

TEST_F(SessionTest, ComputesSizesFromTheInputs) {
  PlanWriter writer({0});
  writer.symbol("batch", 2);
  writer.input("x", tensorType(DType::Float, {-1, 6}));
  StageWriter &stage = writer.stage(0);
  uint32_t x = stage.input(0);
  plan::DimExpr twice = plan::symbolDim(0);
  twice.terms[0]->coefficient = 2;
  uint32_t shape = stage.list("int", {stage.size(twice), stage.constant(integer(3))});
  stage.output(stage.call("aten::view", {x, shape}));
  writer.output("y", 0, 0);
  auto session = open(writer);
  at::Tensor in = at::randn({5, 6});
  EXPECT_TRUE(at::equal(llvm::cantFail(session->run({in}))[0], in.view({10, 3})));
}

TEST_F(SessionTest, ReadsInputsThatAreNotContiguous) {
  TwoLayers model;
  auto session = open(model.writer);
  at::Tensor x = wholeNumbers({8, 3}).t();
  EXPECT_TRUE(at::equal(llvm::cantFail(session->run({x}))[0], model.expected(x)));
}

TEST_F(SessionTest, SendsPastAStage) {
  PlanWriter writer({0, 1, 2});
  writer.input("x", tensorType(DType::Float, {4}));
  StageWriter &first = writer.stage(0), &second = writer.stage(1), &third = writer.stage(2);
  first.output(first.call("aten::neg", {first.input(0)}));
  second.output(second.call("aten::exp", {second.receive(0, 0)}));
  third.output(third.call("aten::mul.Tensor", {third.receive(0, 0), third.receive(1, 0)}));
  writer.output("negated", 0, 0);
  writer.output("product", 2, 0);
  auto session = open(writer);
  at::Tensor x = at::randn({4});
  auto outputs = llvm::cantFail(session->run({x}));
  EXPECT_TRUE(at::equal(outputs[0], x.neg()));
  EXPECT_TRUE(at::equal(outputs[1], x.neg() * x.neg().exp()));
}

TEST_F(SessionTest, RunsSeveralStagesOnOneRank) {
  PlanWriter writer({0, 1, 0, 0});
  writer.input("x", tensorType(DType::Float, {4}));
  writer.stage(0).output(writer.stage(0).call("aten::neg", {writer.stage(0).input(0)}));
  for (uint32_t stage : {1, 2, 3}) {
    uint32_t received = writer.stage(stage).receive(stage - 1, 0);
    writer.stage(stage).output(writer.stage(stage).call("aten::exp", {received}));
  }
  writer.output("y", 3, 0);
  auto session = open(writer);
  at::Tensor x = at::randn({4});
  EXPECT_TRUE(at::equal(llvm::cantFail(session->run({x}))[0], x.neg().exp().exp().exp()));
}

TEST_F(SessionTest, OutputsOutliveTheSession) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {2, 3}));
  StageWriter &stage = writer.stage(0);
  at::Tensor weight = at::randn({4, 3});
  stage.output(stage.call("aten::t", {stage.weight("w", weight)}));
  stage.output(stage.call("aten::t", {stage.input(0)}));
  stage.output(stage.call("aten::exp", {stage.weight("v", weight)}));
  writer.output("weight", 0, 0);
  writer.output("input", 0, 1);
  writer.output("computed", 0, 2);
  auto session = open(writer);
  at::Tensor x = at::randn({2, 3}), copy = x.clone();
  auto outputs = llvm::cantFail(session->run({x}));
  session.reset();
  x.reset();
  EXPECT_TRUE(at::equal(outputs[0], weight.t()));
  EXPECT_TRUE(at::equal(outputs[1], copy.t()));
  EXPECT_TRUE(at::equal(outputs[2], weight.exp()));
}

TEST_F(SessionTest, SplitsTheBatchAndJoinsTheOutputs) {
  for (uint32_t microbatches : {2, 3, 8}) {
    TwoLayers model;
    model.writer.splitBatch(microbatches);
    auto session = open(model.writer);
    // Also a batch that does not divide evenly, and one of fewer samples than micro-batches.
    for (int64_t batch : {8, 5, 1}) {
      at::Tensor x = wholeNumbers({batch, 8});
      auto outputs = llvm::cantFail(session->run({x}));
      EXPECT_EQ(outputs[0].sizes(), (std::vector<int64_t>{batch, 4}));
      EXPECT_TRUE(at::equal(outputs[0], model.expected(x))) << microbatches << " of " << batch;
      EXPECT_TRUE(at::equal(outputs[0], llvm::cantFail(session->run({x}))[0])) << "the same bits each time";
    }
    llvm::sys::fs::remove_directories(path("a.plan"));
  }
}

TEST_F(SessionTest, DataRanksShareTheBatch) {
  for (uint32_t dataParallelSize : {2, 3})
    for (uint32_t microbatches : {1, 2}) {
      TwoLayers model;
      model.writer.splitBatch(microbatches);
      model.writer.addDataRanks(dataParallelSize);
      SessionOptions options;
      options.trace = true;
      auto session = open(model.writer, options);
      EXPECT_EQ(session->statistics().size(), 2 * dataParallelSize);
      for (int64_t batch : {8, 5, 2, 1}) {
        at::Tensor x = wholeNumbers({batch, 8});
        auto outputs = llvm::cantFail(session->run({x}));
        EXPECT_TRUE(at::equal(outputs[0], model.expected(x))) << dataParallelSize << " of " << batch;
        std::vector<int64_t> passes(2 * dataParallelSize);
        for (const TraceEvent &event : session->takeTrace())
          passes[event.rank] += event.action.kind == plan::ActionKind::Forward;
        // Round robin, so that data-parallel ranks differ by at most one.
        int64_t left = std::min<int64_t>(batch, dataParallelSize * microbatches);
        for (uint32_t rank = 0; rank < dataParallelSize; ++rank) {
          const int64_t own = llvm::divideCeil(std::max<int64_t>(left - rank, 0), dataParallelSize);
          EXPECT_EQ(passes[rank], own) << rank << " of " << dataParallelSize << ", batch " << batch;
          EXPECT_EQ(passes[dataParallelSize + rank], own);
        }
      }
      session.reset();
      llvm::sys::fs::remove_directories(path("a.plan"));
    }
}

TEST_F(SessionTest, GivesInputsWithoutABatchWhole) {
  PlanWriter writer({0});
  writer.symbol("batch", 4);
  writer.input("x", tensorType(DType::Float, {-1, 2}));
  writer.input("scale", tensorType(DType::Float, {2}));
  StageWriter &stage = writer.stage(0);
  uint32_t scale = stage.input(1);
  stage.output(stage.call("aten::mul.Tensor", {stage.input(0), scale}));
  stage.output(stage.call("aten::neg", {scale}));
  writer.output("y", 0, 0);
  writer.output("negated", 0, 1);
  writer.splitBatch(2);
  writer.plan->signatures[0]->outputs[0]->type =
      std::make_unique<plan::TensorType>(tensorType(DType::Float, {-1, 2}));
  writer.plan->signatures[0]->outputs[1]->type =
      std::make_unique<plan::TensorType>(tensorType(DType::Float, {2}));
  auto session = open(writer);
  at::Tensor x = at::randn({3, 2}), factor = at::randn({2});
  auto outputs = llvm::cantFail(session->run({x, factor}));
  EXPECT_TRUE(at::equal(outputs[0], x * factor));
  EXPECT_TRUE(at::equal(outputs[1], factor.neg()));
}

TEST_F(SessionTest, HoldsNewRequestsBackUntilThereIsRoom) {
  TwoLayers model;
  SessionOptions options;
  options.maxInFlight = 1;
  auto session = open(model.writer, options);
  std::vector<std::unique_ptr<Session::Pending>> pending;
  for (int i = 0; i < 20; ++i)
    pending.push_back(llvm::cantFail(session->start({at::randn({2, 8})})));
  for (auto &request : pending)
    EXPECT_EQ(failureOf(request->wait()), "");
}

/// Wherever a start fails, for want of memory, there is room for the next one.
TEST_F(SessionTest, AStartThatFailsKeepsNoRoom) {
  TwoLayers model;
  SessionOptions options;
  options.maxInFlight = 1;
  auto session = open(model.writer, options);
  const at::Tensor x = wholeNumbers({2, 8}), expected = model.expected(x);
  const std::vector<at::Tensor> inputs = {x};
  int failed = 0;
  for (int64_t count = 0;; ++count) {
    failAllocationOfThisThread(count);
    auto pending = session->start(inputs);
    const bool hasFailed = failAllocationOfThisThread(-1);
    const std::string failure = pending ? failureOf((*pending)->wait()) : failureOf(pending.takeError());
    EXPECT_EQ(failure, hasFailed ? "out of memory; free some, or raise the limit (ulimit -v)" : "") << count;
    auto outputs = session->run(inputs);
    ASSERT_TRUE(bool(outputs)) << count << ": " << llvm::toString(outputs.takeError());
    EXPECT_TRUE(at::equal((*outputs)[0], expected)) << count;
    if (!hasFailed)
      break;
    ++failed;
  }
  EXPECT_GT(failed, 10);
}

TEST_F(SessionTest, TracesWhatEveryRankDoes) {
  TwoLayers model;
  model.writer.splitBatch(2);
  SessionOptions options;
  options.trace = true;
  auto session = open(model.writer, options);
  llvm::cantFail(session->run({at::randn({4, 8})}));
  std::vector<std::string> actions;
  for (const TraceEvent &event : session->takeTrace()) {
    EXPECT_LE(event.begin, event.end);
    EXPECT_EQ(event.rank, event.action.stage);
    actions.push_back(plan::toString(event.action));
  }
  EXPECT_THAT(actions,
              testing::ElementsAre("F0.0", "S0.0>1", "F0.1", "S0.1>1", "R1.0<0", "F1.0", "R1.1<0", "F1.1"));
  EXPECT_TRUE(session->takeTrace().empty()) << "taken once";
}

TEST_F(SessionTest, RequestsFollowOneAnother) {
  TwoLayers model;
  auto session = open(model.writer);
  std::vector<at::Tensor> inputs;
  std::vector<std::unique_ptr<Session::Pending>> pending;
  for (int i = 0; i < 30; ++i) {
    inputs.push_back(at::randn({2, 8}));
    pending.push_back(llvm::cantFail(session->start({inputs.back()})));
  }
  for (int i = 0; i < 30; ++i)
    EXPECT_TRUE(at::allclose(llvm::cantFail(pending[i]->wait())[0], model.expected(inputs[i]), 1e-5, 1e-5));
}

TEST_F(SessionTest, ClosingKeepsWhatIsDone) {
  for (uint32_t microbatches : {1, 2}) {
    TwoLayers model;
    if (microbatches > 1)
      model.writer.splitBatch(microbatches);
    auto session = open(model.writer);
    at::Tensor x = at::randn({2, 8});
    auto first = llvm::cantFail(session->start({x}));
    // Requests end in order.
    llvm::cantFail(session->run({x}));
    session.reset();
    EXPECT_EQ(failureOf(first->wait()), "");
    llvm::sys::fs::remove_directories(path("a.plan"));
  }
}

TEST_F(SessionTest, ClosingFailsWhatIsUnderWay) {
  TwoLayers model;
  auto session = open(model.writer);
  std::vector<std::unique_ptr<Session::Pending>> pending;
  for (int i = 0; i < 100; ++i)
    pending.push_back(llvm::cantFail(session->start({at::randn({2, 8})})));
  session.reset();
  for (const auto &request : pending) {
    std::string failure = failureOf(request->wait());
    EXPECT_TRUE(failure.empty() || failure == "the session was closed while the request was under way")
        << failure;
  }
}

TEST_F(SessionTest, ReportsWhereAnOperatorFailed) {
  PlanWriter writer({0, 1});
  writePairs(writer);
  auto session = open(writer);
  EXPECT_THAT(failureOf(session->run({at::ones({5})})),
              AllOf(StartsWith("rank 1 (stage 1): head.pairs: aten::view: shape '[-1, 2]' is invalid"),
                    Not(HasSubstr("Exception raised"))));
  // The next request is not touched by it.
  EXPECT_TRUE(at::equal(llvm::cantFail(session->run({at::ones({4})}))[0], at::full({2, 2}, 2.f)));
}

TEST_F(SessionTest, FailureStopsTheOtherRanks) {
  PlanWriter writer({0, 1, 2});
  writePairs(writer);
  StageWriter &last = writer.stage(2);
  last.output(last.call("aten::neg", {last.receive(1, 0)}));
  writer.output("z", 2, 0);
  auto session = open(writer);
  for (int i = 0; i < 5; ++i)
    EXPECT_THAT(failureOf(session->run({at::ones({3})})),
                StartsWith("rank 1 (stage 1): head.pairs: aten::view"));
}

TEST_F(SessionTest, StuckPlanFailsAtItsDeadline) {
  PlanWriter writer({0, 1});
  writer.input("x", tensorType(DType::Float, {2}));
  StageWriter &first = writer.stage(0), &second = writer.stage(1);
  // while true: pass
  plan::Constant always = integer(1);
  always.kind = plan::ConstantKind::Bool;
  uint32_t yes = first.constant(always), x = first.input(0);
  uint32_t body = first.block(2, [&](Slots params) { return Slots{yes, params[1]}; });
  uint32_t forever = first.constant(integer(INT64_MAX));
  first.output(first.emit(InstructionKind::Loop, {forever, yes, x}, 1, {body})[0]);
  second.output(second.call("aten::neg", {second.receive(0, 0)}));
  writer.output("y", 1, 0);
  SessionOptions options;
  options.timeout = std::chrono::seconds(1);
  auto session = open(writer, options);
  EXPECT_EQ(failureOf(session->run({at::ones({2})})),
            "no result after 1 s: rank 0 (stage 0) is computing Loop, rank 1 (stage 1) waits for the values "
            "of stage 0; "
            "allow more time (--timeout)");
  EXPECT_THAT(
      failureOf(session->run({at::ones({2})})),
      StartsWith(
          "the session takes no more requests, since one had no result in time (no result after 1 s: rank "));
  EXPECT_THAT(failureOf(session->start({at::ones({2})})), StartsWith("the session takes no more requests"));
}

TEST_F(SessionTest, RefusesInputsThatDoNotFit) {
  PlanWriter writer({0});
  writer.symbol("batch", 4);
  writer.symbol("seq", 128);
  writer.input("input_ids", tensorType(DType::Int64, {-1, -2}));
  writer.input("mask", tensorType(DType::Float, {-1, -2, 3}));
  StageWriter &stage = writer.stage(0);
  stage.output(stage.call("aten::neg", {stage.input(0)}));
  writer.output("y", 0, 0);
  auto session = open(writer);
  at::Tensor ids = at::zeros({4, 8}, at::kLong), mask = at::zeros({4, 8, 3});
  auto failure = [&](std::vector<at::Tensor> inputs) { return failureOf(session->run(inputs)); };
  EXPECT_EQ(failure({ids, mask}), "");
  EXPECT_EQ(failure({ids}), "signature forward: found 1 inputs, expected 2 (input_ids, mask)");
  EXPECT_EQ(failure({ids.to(at::kInt), mask}),
            "input input_ids: found int32[4, 8], expected int64[batch, seq]; convert it to int64");
  EXPECT_EQ(failure({ids[0], mask}),
            "input input_ids: found int64[8], expected int64[batch, seq]; give it 2 dimensions");
  EXPECT_EQ(failure({ids, at::zeros({4, 8, 2})}), "input mask: found float32[4, 8, 2], expected "
                                                  "float32[batch, seq, 3]; the trace fixed dimension 2 at 3; "
                                                  "compile with --dynamic to leave it open");
  EXPECT_EQ(failure({ids, at::zeros({4, 9, 3})}),
            "input mask: found float32[4, 9, 3], expected float32[batch, seq, "
            "3]; seq is 8 in input_ids; give both the same size");
  EXPECT_EQ(failure({at::zeros({4, 0}, at::kLong), mask}),
            "input input_ids: found int64[4, 0], expected int64[batch, seq]; seq must be at least 1");
  EXPECT_EQ(failure({at::Tensor(), mask}), "input input_ids: found no tensor, expected int64[batch, seq]");
  EXPECT_EQ(failureOf(session->run({ids, mask}, {.signature = 1})),
            "found signature 1, expected less than 1");
}

TEST_F(SessionTest, RefusesSizesThatWereNotCompared) {
  PlanWriter writer({0});
  const uint32_t seq = writer.symbol("seq", 8);
  plan::Symbol &symbol = *writer.plan->signatures[0]->symbols[seq];
  symbol.witnessed_min = 4;
  symbol.witnessed_max = 16;
  symbol.witnessed_divisible_by = 4;
  writer.input("input_ids", tensorType(DType::Float, {2, -1}));
  StageWriter &stage = writer.stage(0);
  stage.output(stage.call("aten::neg", {stage.input(0)}));
  writer.output("y", 0, 0);
  auto session = open(writer);
  for (int64_t size : {4, 8, 16})
    EXPECT_EQ(failureOf(session->run({at::ones({2, size})})), "") << size;
  for (int64_t size : {20, 6, 2})
    EXPECT_EQ(failureOf(session->run({at::ones({2, size})})),
              "input input_ids: dimension 1 (seq) is " + std::to_string(size) +
                  ", expected 4 to 16 in multiples of 4, where the trace was compared with the module; "
                  "--beyond-witnesses (SessionOptions::beyondWitnesses) runs it all the same");
  SessionOptions options;
  options.beyondWitnesses = true;
  session = llvm::cantFail(Session::open(path("a.plan"), options));
  EXPECT_EQ(failureOf(session->run({at::ones({2, 20})})), "");
}

TEST_F(SessionTest, RefusesUnknownDevices) {
  TwoLayers model;
  model.writer.write(path("a.plan"));
  auto failure = [&](std::vector<std::string> devices) {
    SessionOptions options;
    options.devices = std::move(devices);
    return failureOf(Session::open(path("a.plan"), options));
  };
  EXPECT_EQ(failure({"cpu:0", "gpu1"}),
            "device gpu1: not a device, expected cpu:N or cuda:N; did you mean cpu:1?");
  EXPECT_EQ(failure({"cpu", "cpu:1"}),
            "device cpu: not a device, expected cpu:N or cuda:N; did you mean cpu:0?");
  EXPECT_EQ(failure({"cuda", "cpu:1"}),
            "device cuda: not a device, expected cpu:N or cuda:N; did you mean cuda:0?");
  EXPECT_EQ(failure({"cpu:0"}),
            "plan was compiled for 2 devices, 1 were given; pass --devices with 2 entries");
  SessionOptions options;
  options.outputDevice = "gpu";
  EXPECT_EQ(failureOf(Session::open(path("a.plan"), options)),
            "outputs: device gpu: not a device, expected cpu:N or cuda:N; did you mean cpu:0?");
}

TEST_F(SessionTest, RunsTwoRanksOnDevicesOfOneName) {
  TwoLayers model;
  SessionOptions options;
  options.devices = {"cpu:0", "cpu:0"};
  auto session = open(model.writer, options);
  at::Tensor x = at::randn({3, 8});
  EXPECT_TRUE(at::equal(llvm::cantFail(session->run({x}))[0], model.expected(x)));
}

TEST_F(SessionTest, RefusesUnknownOperators) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {2}));
  writer.stage(0).output(writer.stage(0).call("aten::ad.Tensor", {writer.stage(0).input(0)}, "net.4"));
  EXPECT_THAT(openFailure(writer),
              AllOf(StartsWith("rank 0 (stage 0): net.4: aten::ad.Tensor: this libtorch has no "
                               "operator aten::ad.Tensor; did you mean "),
                    HasSubstr("--library")));
}

TEST_F(SessionTest, RefusesWrongNumbersOfOperands) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {2}));
  writer.stage(0).output(writer.stage(0).call("aten::add.Tensor", {writer.stage(0).input(0)}, "net.4"));
  EXPECT_EQ(openFailure(writer), "rank 0 (stage 0): net.4: aten::add.Tensor: found 1 operands, expected 3");
}

TEST_F(SessionTest, RefusesOperatorsThatWriteToTensors) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {2}));
  writer.stage(0).output(writer.stage(0).call("aten::relu_", {writer.stage(0).input(0)}));
  SessionOptions options;
  options.allowedOperators = {"aten::relu_"};
  EXPECT_THAT(openFailure(writer, options), HasSubstr("aten::relu_ writes to its operand"));
}

TEST_F(SessionTest, RefusesCollectivesOfOneRank) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {2}));
  StageWriter &stage = writer.stage(0);
  stage.output(stage.call("spmd::all_reduce", {stage.input(0)}));
  EXPECT_THAT(openFailure(writer), HasSubstr("is a collective over a group of one rank"));
}

TEST_F(SessionTest, RefusesLibrariesThatAreNotThere) {
  TwoLayers model;
  SessionOptions options;
  options.libraries = {path("nowhere.so")};
  EXPECT_THAT(openFailure(model.writer, options),
              AllOf(StartsWith("cannot load library: "), HasSubstr("nowhere.so")));
}

} // namespace cleave::runtime
