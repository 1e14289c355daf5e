//===- MemoryTest.cpp - What is held, by which device, and when -----------===//
#include "runtime/device/MemoryAccount.h"
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <thread>

namespace cleave::runtime {

using plan::DType;

class MemoryTest : public PlanTest {};

TEST_F(MemoryTest, CountsBlocksUntilTheyAreFreedByAnyThread) {
  MemoryAccountRef account(new MemoryAccount("test"));
  at::Tensor kept;
  {
    ScopedAccount counted(*account);
    kept = at::empty({100});
    at::Tensor dropped = at::empty({50});
    EXPECT_EQ(account->heldBytes(), 600);
  }
  at::Tensor other = at::empty({1000});
  EXPECT_EQ(account->heldBytes(), 400);
  EXPECT_EQ(account->peakBytes(), 600);
  std::thread([tensor = std::move(kept)]() mutable { tensor.reset(); }).join();
  EXPECT_EQ(account->heldBytes(), 0);
}

TEST_F(MemoryTest, MovesAccountingWithTheValue) {
  MemoryAccountRef giver(new MemoryAccount("giver")), receiver(new MemoryAccount("receiver"));
  c10::IValue pair;
  {
    ScopedAccount counted(*giver);
    pair = c10::ivalue::Tuple::create({at::empty({10}), at::empty({20}).view({4, 5})});
  }
  moveAccounting(pair, *receiver);
  EXPECT_EQ(giver->heldBytes(), 0);
  EXPECT_EQ(receiver->heldBytes(), 120);
  const at::Tensor first = pair.toTupleRef().elements()[0].toTensor();
  stopAccounting(first, *giver);
  EXPECT_EQ(receiver->heldBytes(), 120);
  stopAccounting(first, *receiver);
  EXPECT_EQ(receiver->heldBytes(), 80);
}

TEST_F(MemoryTest, BlocksOutliveTheirAccount) {
  at::Tensor tensor;
  {
    MemoryAccountRef account(new MemoryAccount("short"));
    ScopedAccount counted(*account);
    tensor = at::ones({10});
  }
  EXPECT_EQ(tensor.sum().item<float>(), 10);
}

TEST_F(MemoryTest, RefusesMoreThanTheLimit) {
  MemoryAccountRef account(new MemoryAccount("cpu:3", 1000));
  ScopedAccount counted(*account);
  at::Tensor fits = at::empty({200});
  try {
    at::Tensor tooMuch = at::empty({100});
    FAIL();
  } catch (const c10::OutOfMemoryError &error) {
    EXPECT_THAT(error.what_without_backtrace(),
                testing::HasSubstr("cpu:3: 400 bytes wanted, 800 of 1000 held"));
  }
  EXPECT_EQ(account->heldBytes(), 800);
}

/// neg, exp, neg on `x : float32[n]`, then the sum: at most two tensors of n at a time.
static void writeChain(PlanWriter &writer) {
  writer.symbol("n", 8);
  writer.input("x", tensorType(DType::Float, {-1}));
  StageWriter &stage = writer.stage(0);
  uint32_t value = stage.input(0);
  for (const char *op : {"aten::neg", "aten::exp", "aten::neg", "aten::abs"})
    value = stage.call(op, {value});
  uint32_t weight = stage.weight("w", at::ones({64}));
  value = stage.call("aten::sum", {value, stage.constant(none())});
  stage.output(stage.call("aten::add.Tensor", {weight, value, stage.constant(integer(1))}));
  writer.output("y", 0, 0);
}

TEST_F(MemoryTest, PeakIsWeightsAndWhatLivesAtATime) {
  PlanWriter writer({0});
  writeChain(writer);
  auto session = open(writer);
  EXPECT_EQ(session->statistics()[0].weightBytes, 256);
  EXPECT_EQ(session->statistics()[0].peakBytes, 256);
  llvm::cantFail(session->run({at::ones({1000})}));
  // The operand and the result of one operation; the input is the caller's.
  EXPECT_EQ(session->statistics()[0].peakBytes, 256 + 2 * 4000);
}

TEST_F(MemoryTest, NothingStaysBetweenRequests) {
  PlanWriter writer({0});
  writeChain(writer);
  auto session = open(writer);
  std::vector<at::Tensor> kept;
  for (int i = 0; i < 5; ++i)
    kept.push_back(llvm::cantFail(session->run({at::ones({1000})}))[0]);
  EXPECT_EQ(session->statistics()[0].peakBytes, 256 + 2 * 4000);
}

TEST_F(MemoryTest, HandsValuesOverWithoutCopying) {
  PlanWriter writer({0, 1});
  writer.input("x", tensorType(DType::Float, {1000}));
  StageWriter &first = writer.stage(0), &second = writer.stage(1);
  first.output(first.call("aten::neg", {first.input(0)}));
  second.output(second.call("aten::view", {second.receive(0, 0), second.constant(integers({10, 100}))}));
  writer.output("sent", 0, 0);
  writer.output("received", 1, 0);
  auto session = open(writer);
  auto outputs = llvm::cantFail(session->run({at::ones({1000})}));
  EXPECT_EQ(outputs[0].data_ptr(), outputs[1].data_ptr());
  EXPECT_EQ(session->statistics()[0].peakBytes, 4000);
  EXPECT_EQ(session->statistics()[1].peakBytes, 4000);
}

TEST_F(MemoryTest, ReceivedValuesAreCountedOnceAndFreedAtTheirLastUse) {
  PlanWriter writer({0, 1});
  writer.input("x", tensorType(DType::Float, {1000}));
  StageWriter &first = writer.stage(0), &second = writer.stage(1);
  first.output(first.call("aten::neg", {first.input(0)}));
  uint32_t value = second.receive(0, 0);
  for (const char *op : {"aten::exp", "aten::neg", "aten::abs"})
    value = second.call(op, {value});
  second.output(value);
  writer.output("y", 1, 0);
  auto session = open(writer);
  for (int i = 0; i < 20; ++i)
    llvm::cantFail(session->run({at::ones({1000})}));
  EXPECT_EQ(session->statistics()[0].peakBytes, 4000);
  EXPECT_EQ(session->statistics()[1].peakBytes, 8000);
}

TEST_F(MemoryTest, OutputsThatAreSentOnAreTheReceiversUntilItHasEnded) {
  PlanWriter writer({0, 1});
  writer.input("x", tensorType(DType::Float, {1000}));
  StageWriter &first = writer.stage(0), &second = writer.stage(1);
  first.output(first.call("aten::neg", {first.input(0)}));
  second.output(second.call("aten::exp", {second.receive(0, 0)}));
  writer.output("hidden", 0, 0);
  writer.output("y", 1, 0);
  auto session = open(writer);
  std::vector<std::unique_ptr<Session::Pending>> pending;
  for (int i = 0; i < 20; ++i)
    pending.push_back(llvm::cantFail(session->start({at::ones({1000})})));
  for (const auto &request : pending)
    llvm::cantFail(request->wait());
  EXPECT_EQ(session->statistics()[0].peakBytes, 4000);
  EXPECT_EQ(session->statistics()[1].peakBytes, 8000);
}

TEST_F(MemoryTest, RequestsInFlightHoldNoMoreThanOne) {
  TwoLayers model;
  auto session = open(model.writer);
  llvm::cantFail(session->run({at::ones({64, 8})}));
  auto before = session->statistics();
  std::vector<std::unique_ptr<Session::Pending>> pending;
  for (int i = 0; i < 50; ++i)
    pending.push_back(llvm::cantFail(session->start({at::ones({64, 8})})));
  pending.clear();
  auto after = session->statistics();
  EXPECT_EQ(after[0].peakBytes, before[0].peakBytes);
  EXPECT_EQ(after[1].peakBytes, before[1].peakBytes);
  EXPECT_GT(after[0].busySeconds, before[0].busySeconds);
}

TEST_F(MemoryTest, SaysWhoHasNoMemory) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {1000}));
  StageWriter &stage = writer.stage(0);
  uint32_t kept = stage.call("aten::neg", {stage.input(0)});
  uint32_t petabytes = stage.constant(integers({int64_t(1) << 50})), nothing = stage.constant(none());
  uint32_t huge = stage.call("aten::zeros", {petabytes, nothing, nothing, nothing, nothing}, "net.huge");
  stage.output(stage.call("aten::add.Tensor", {huge, kept, stage.constant(integer(1))}));
  writer.output("y", 0, 0);
  EXPECT_EQ(
      failureOf(open(writer)->run({at::ones({1000})})),
      "rank 0 (stage 0): net.huge: aten::zeros: cpu:0: no memory for 4503599627370496 bytes more, 4000 held");
}

TEST_F(MemoryTest, FailedRequestsLeaveNothing) {
  PlanWriter writer({0, 1});
  writer.symbol("n", 4);
  writer.input("x", tensorType(DType::Float, {-1}));
  StageWriter &first = writer.stage(0), &second = writer.stage(1);
  first.output(first.call("aten::neg", {first.input(0)}));
  uint32_t shape = second.constant(integers({-1, 2})), received = second.receive(0, 0);
  second.output(second.call("aten::view", {second.call("aten::exp", {received}), shape}));
  writer.output("y", 1, 0);
  auto session = open(writer);
  for (int i = 0; i < 10; ++i)
    EXPECT_NE(failureOf(session->run({at::ones({1001})})), "");
  llvm::cantFail(session->run({at::ones({1000})}));
  EXPECT_EQ(session->statistics()[1].peakBytes, 2 * 4004);
}

} // namespace cleave::runtime
