//===- SequenceTest.cpp - States with a row for each sample ---------------===//
#include "runtime/session/Session.h"
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using plan::DType;
using testing::HasSubstr;

/// Two stages with a state each, of 4 numbers a sample: `h = h / 2 + x`, then `c = c + h` and
/// `y = c + table[index]`. An index beyond the table makes the second stage fail, after the first has
/// written.
class SequenceTest : public PlanTest {
protected:
  static constexpr int64_t batch = 8;

  /// \param initial  what both states begin with.
  static void write(PlanWriter &writer, const at::Tensor &initial, uint32_t microbatches,
                    uint32_t dataRanks) {
    writer.symbol("batch", batch);
    writer.input("x", tensorType(DType::Float, {-1, 4}));
    writer.input("index", tensorType(DType::Int64, {-1}));
    for (uint32_t tpRank = 0; tpRank < writer.plan->mesh->tp; ++tpRank) {
      StageWriter &first = writer.stage(0, tpRank), &second = writer.stage(1, tpRank);
      const uint32_t one = first.constant(integer(1)), other = second.constant(integer(1));
      const uint32_t h = first.readRows("h", first.weight("h", initial), 4);
      const uint32_t half = first.call("aten::mul.Scalar", {h, first.constant(real(0.5))});
      const uint32_t next = first.call("aten::add.Tensor", {half, first.input(0), one});
      first.output(first.call("aten::mul.Scalar", {next, one}));
      first.writeState("h", next);
      const uint32_t c = second.readRows("c", second.weight("c", initial), 4);
      const uint32_t sum = second.call("aten::add.Tensor", {c, second.receive(0, 0), other});
      const uint32_t row =
          second.call("aten::embedding", {second.weight("table", table()), second.input(1),
                                          second.constant(integer(-1)), falseIn(second), falseIn(second)});
      second.output(second.call("aten::add.Tensor", {sum, row, other}));
      second.writeState("c", sum);
    }
    writer.output("y", 1, 0);
    writer.splitBatch(microbatches);
    writer.addDataRanks(dataRanks);
  }
  static uint32_t falseIn(StageWriter &stage) {
    plan::Constant no;
    no.kind = plan::ConstantKind::Bool;
    return stage.constant(no);
  }
  static at::Tensor table() { return at::arange(12, at::kFloat).view({3, 4}); }

  std::unique_ptr<Session> openRows(const at::Tensor &initial = at::ones({1, 4}), uint32_t microbatches = 4,
                                    uint32_t dataRanks = 2, SessionOptions options = {}) {
    PlanWriter writer({0, 1}, 2);
    write(writer, initial, microbatches, dataRanks);
    return open(writer, options);
  }

  /// What one sequence should give, request by request.
  struct Expected {
    explicit Expected(const at::Tensor &initial = at::ones({1, 4})) : h(initial), c(initial) {}
    at::Tensor next(const std::vector<at::Tensor> &inputs) {
      h = h * 0.5 + inputs[0];
      c = c + h;
      return c + at::embedding(table(), inputs[1]);
    }
    at::Tensor h, c;
  };
  static std::vector<at::Tensor> inputs(int64_t samples = batch) {
    return {wholeNumbers({samples, 4}), at::randint(0, 3, {samples}, at::kLong)};
  }
};

TEST_F(SequenceTest, GivesEachSampleItsOwnRow) {
  auto session = openRows();
  Expected expected;
  for (int call = 0; call < 5; ++call) {
    const std::vector<at::Tensor> given = inputs();
    EXPECT_TRUE(at::equal(llvm::cantFail(session->run(given))[0], expected.next(given))) << call;
  }
}

TEST_F(SequenceTest, RunsEightSequencesAtATime) {
  constexpr int sequences = 8;
  auto session = openRows();
  std::vector<Expected> expected(sequences);
  for (int call = 0; call < 10; ++call) {
    std::vector<std::unique_ptr<Session::Pending>> pending;
    std::vector<at::Tensor> outputs;
    for (int sequence = 0; sequence < sequences; ++sequence) {
      // Batches of their own, too.
      const std::vector<at::Tensor> given = inputs(3 + sequence);
      outputs.push_back(expected[sequence].next(given));
      pending.push_back(llvm::cantFail(session->start(given, {.sequence = uint64_t(1000 + sequence)})));
    }
    for (int sequence = 0; sequence < sequences; ++sequence)
      EXPECT_TRUE(at::equal(llvm::cantFail(pending[sequence]->wait())[0], outputs[sequence]))
          << call << " of " << sequence;
  }
}

TEST_F(SequenceTest, RunsRequestsOfASequenceOneAfterTheOther) {
  auto session = openRows();
  Expected expected;
  std::vector<std::unique_ptr<Session::Pending>> pending;
  std::vector<at::Tensor> outputs;
  for (int call = 0; call < 20; ++call) {
    const std::vector<at::Tensor> given = inputs();
    outputs.push_back(expected.next(given));
    pending.push_back(llvm::cantFail(session->start(given, {.sequence = 7})));
  }
  for (int call = 0; call < 20; ++call)
    EXPECT_TRUE(at::equal(llvm::cantFail(pending[call]->wait())[0], outputs[call])) << call;
}

TEST_F(SequenceTest, StaysAsItWasWhereARequestFailsInTheMiddle) {
  auto session = openRows();
  Expected expected, other;
  std::vector<at::Tensor> given = inputs();
  llvm::cantFail(session->run(given));
  expected.next(given);
  for (int64_t sample = 0; sample < batch; ++sample) {
    // One micro-batch fails in the second stage; others have run to the end.
    std::vector<at::Tensor> bad = inputs();
    bad[1][sample] = 5;
    EXPECT_THAT(failureOf(session->run(bad)), HasSubstr("(stage 1): aten::embedding"));
    given = inputs();
    EXPECT_TRUE(at::equal(llvm::cantFail(session->run(given, {.sequence = 9}))[0], other.next(given)));
  }
  given = inputs();
  EXPECT_TRUE(at::equal(llvm::cantFail(session->run(given))[0], expected.next(given)));
}

TEST_F(SequenceTest, RefusesAnotherBatch) {
  auto session = openRows();
  llvm::cantFail(session->run(inputs(), {.sequence = 3}));
  EXPECT_THAT(failureOf(session->run(inputs(5), {.sequence = 3})),
              HasSubstr("found a batch of 5 for sequence id 3, whose requests have 8 rows; end it first"));
  llvm::cantFail(session->run(inputs(5), {.sequence = 4}));
  EXPECT_EQ(failureOf(session->endSequence(3)), "");
  Expected expected;
  const std::vector<at::Tensor> given = inputs(5);
  EXPECT_TRUE(at::equal(llvm::cantFail(session->run(given, {.sequence = 3}))[0], expected.next(given)));
}

TEST_F(SequenceTest, AFailedFirstRequestFixesNoBatch) {
  auto session = openRows();
  std::vector<at::Tensor> bad = inputs();
  bad[1][0] = 5;
  EXPECT_NE(failureOf(session->run(bad)), "");
  EXPECT_EQ(failureOf(session->run(inputs(3))), "");
}

TEST_F(SequenceTest, BeginsWithRowsOfItsOwn) {
  const at::Tensor initial = wholeNumbers({batch, 4});
  auto session = openRows(initial);
  Expected expected(initial);
  for (int call = 0; call < 3; ++call) {
    const std::vector<at::Tensor> given = inputs();
    EXPECT_TRUE(at::equal(llvm::cantFail(session->run(given))[0], expected.next(given))) << call;
  }
  EXPECT_THAT(failureOf(session->run(inputs(6), {.sequence = 1})),
              HasSubstr("state h begins with 8 rows, found a batch of 6; give a batch of 8"));
}

TEST_F(SequenceTest, ResetForgetsAllSequences) {
  auto session = openRows();
  for (uint64_t sequence : {0, 1, 2})
    llvm::cantFail(session->run(inputs(), {.sequence = sequence}));
  EXPECT_EQ(failureOf(session->resetState()), "");
  for (uint64_t sequence : {0, 1, 2}) {
    Expected expected;
    const std::vector<at::Tensor> given = inputs(4);
    EXPECT_TRUE(
        at::equal(llvm::cantFail(session->run(given, {.sequence = sequence}))[0], expected.next(given)));
  }
}

TEST_F(SequenceTest, CountsWhatIsWrittenAndCopiesNothing) {
  auto session = openRows();
  constexpr int calls = 3;
  for (int call = 0; call < calls; ++call)
    llvm::cantFail(session->run(inputs()));
  for (const DeviceStatistics &device : session->statistics()) {
    // Half of the batch, on each of the tensor-parallel ranks.
    EXPECT_EQ(device.stateBytesWritten, calls * batch / 2 * 4 * 4) << device.name;
    EXPECT_EQ(device.stateBytesCopied, 0) << device.name;
  }
}

TEST_F(SequenceTest, AStateWithoutRowsIsOneForAll) {
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {2}));
  StageWriter &stage = writer.stage(0);
  const uint32_t x = stage.input(0);
  stage.output(stage.readState("last", stage.weight("last", at::zeros({2}))));
  stage.writeState("last", x);
  writer.output("y", 0, 0);
  auto session = open(writer);
  EXPECT_THAT(failureOf(session->run({at::ones({2})}, {.sequence = 1})),
              HasSubstr("found sequence id 1, but state last has no rows for the batch"));
}

TEST_F(SequenceTest, RefusesPlansThatHaveNoBatchForTheRows) {
  PlanWriter writer({0, 1}, 2);
  write(writer, at::ones({1, 4}), 1, 1);
  writer.plan->signatures[0]->batch = -1;
  EXPECT_THAT(openFailure(writer),
              HasSubstr("a state has rows for the batch in a signature that has no batch"));
}

} // namespace cleave::runtime
