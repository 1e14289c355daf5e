//===- HostileValuesTest.cpp - Values without end -------------------------===//
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using plan::DType;
using plan::InstructionKind;
using testing::HasSubstr;
using testing::StartsWith;

static plan::Constant boolean(bool value) {
  plan::Constant constant = integer(value);
  constant.kind = plan::ConstantKind::Bool;
  return constant;
}

namespace {
/// Plans of one stage that make values of which there is no end.
class HostileValuesTest : public PlanTest {
protected:
  HostileValuesTest() { writer.input("x", tensorType(DType::Float, {8})); }
  /// A value that starts as `first`, and goes through `body` so many times.
  uint32_t repeated(int64_t times, uint32_t first, llvm::function_ref<uint32_t(uint32_t)> body) {
    const uint32_t always = stage.constant(boolean(true));
    const uint32_t block = stage.block(2, [&](Slots params) { return Slots{always, body(params[1])}; });
    return stage.emit(InstructionKind::Loop, {stage.constant(integer(times)), always, first}, 1, {block})[0];
  }
  /// What a request fails with. Gives `output` where the plan has one.
  std::string failure(std::optional<uint32_t> output = std::nullopt) {
    writer.output("y", 0, stage.output(output ? *output : stage.input(0)));
    auto session = open(writer);
    return session ? failureOf(session->run({at::ones(8)})) : "";
  }

  PlanWriter writer{{0}};
  StageWriter &stage = writer.stage(0);
};
} // namespace

//===- Nests --------------------------------------------------------------===//

TEST_F(HostileValuesTest, TuplesThatNestWithoutEnd) {
  repeated(200'000, stage.input(0),
           [&](uint32_t inner) { return stage.emit(InstructionKind::Tuple, {inner}, 1)[0]; });
  EXPECT_EQ(failure(), "rank 0 (stage 0): Tuple: found values nested 100 deep, expected fewer");
}

TEST_F(HostileValuesTest, ListsThatNestWithoutEnd) {
  repeated(200'000, stage.input(0), [&](uint32_t inner) { return stage.list("Any", {inner}); });
  EXPECT_EQ(failure(), "rank 0 (stage 0): List: found values nested 100 deep, expected fewer");
}

TEST_F(HostileValuesTest, TuplesThatHoldThemselvesTwice) {
  repeated(99, stage.input(0),
           [&](uint32_t inner) { return stage.emit(InstructionKind::Tuple, {inner, inner}, 1)[0]; });
  EXPECT_THAT(failure(), HasSubstr("found lists and strings of more than 268435456 bytes in one value"));
}

//===- Lengths ------------------------------------------------------------===//

TEST_F(HostileValuesTest, StringsThatDouble) {
  repeated(60, stage.constant(text("ab")), [&](uint32_t s) { return stage.call("aten::add.str", {s, s}); });
  EXPECT_EQ(failure(), "rank 0 (stage 0): aten::add.str: found a list or string of 2097152 items, expected "
                       "at most 1048576");
}

TEST_F(HostileValuesTest, ListsThatDouble) {
  repeated(60, stage.constant(integers({1, 2})),
           [&](uint32_t s) { return stage.call("aten::add.t", {s, s}); });
  EXPECT_THAT(failure(), HasSubstr("found a list or string of 2097152 items"));
}

// 100 lists of 8 MB at one time.
TEST_F(HostileValuesTest, ListsCountAsMemory) {
  const uint32_t two = stage.constant(integers({1, 2})), many = stage.constant(integer(250'000));
  Slots lists;
  for (int i = 0; i < 100; ++i)
    lists.push_back(stage.call("aten::mul.left_t", {two, many}));
  stage.emit(InstructionKind::Tuple, lists, 1);
  writer.plan->memory_limits = {1 << 20};
  EXPECT_THAT(failure(), StartsWith("rank 0 (stage 0): aten::mul.left_t: cpu:0: 8000064 bytes wanted, "));
}

/// A tensor of one element, seen as so many rows.
static uint32_t rowsOf64Dimensions(StageWriter &stage, int64_t rows) {
  std::vector<int64_t> sizes(64, 1);
  sizes[0] = rows;
  return stage.call("aten::expand", {stage.weight("one", at::ones({1})), stage.constant(integers(sizes)),
                                     stage.constant(boolean(false))});
}

// Views have no elements of their own, and sizes for each of their dimensions.
TEST_F(HostileValuesTest, ViewsInListsCountAsMemory) {
  stage.call("aten::unbind.int", {rowsOf64Dimensions(stage, 100'000), stage.constant(integer(0))});
  writer.plan->memory_limits = {16 << 20};
  EXPECT_THAT(failure(), StartsWith("rank 0 (stage 0): aten::unbind.int: cpu:0: "));
}

// Between tensors of no dimension.
TEST_F(HostileValuesTest, EachItemOfAListCounts) {
  const uint32_t views =
      stage.call("aten::unbind.int", {rowsOf64Dimensions(stage, 100'000), stage.constant(integer(0))});
  const uint32_t end = stage.list("Tensor", {stage.weight("scalar", at::ones({}))});
  const uint32_t begun = stage.call("aten::add.t", {end, views});
  stage.call("aten::add.t", {begun, end});
  writer.plan->memory_limits = {100 << 20};
  EXPECT_THAT(failure(), StartsWith("rank 0 (stage 0): aten::add.t: cpu:0: "));
}

// Refused before it is made.
TEST_F(HostileValuesTest, ViewsThatWouldTakeTooMuch) {
  const uint32_t wide = rowsOf64Dimensions(stage, 500'000);
  const uint32_t pieces = stage.constant(integers(std::vector<int64_t>(500'000, 1)));
  stage.call("aten::split_with_sizes", {wide, pieces, stage.constant(integer(0))});
  EXPECT_THAT(failure(), HasSubstr("aten::split_with_sizes: it would make a list of views that take"));
}

// The tables of the chain's products have a million entries.
TEST_F(HostileValuesTest, ChainsAreShort) {
  const uint32_t one = stage.weight("one", at::ones({1, 1}));
  const uint32_t chain = stage.list("Tensor", Slots(1001, one));
  stage.call("aten::linalg_multi_dot", {chain});
  EXPECT_THAT(failure(), HasSubstr("found 1001 matrices, expected at most 1000"));
}

// One after the other.
TEST_F(HostileValuesTest, ListsThatAreGoneCountNoMore) {
  const uint32_t two = stage.constant(integers({1, 2})), many = stage.constant(integer(250'000));
  const uint32_t last =
      repeated(100, two, [&](uint32_t) { return stage.call("aten::mul.left_t", {two, many}); });
  const uint32_t length = stage.call("aten::len.t", {last}), nothing = stage.constant(none());
  const uint32_t y =
      stage.call("aten::tensor.int", {length, nothing, nothing, stage.constant(boolean(false))});
  writer.plan->memory_limits = {1 << 20};
  writer.output("y", 0, stage.output(y));
  auto session = open(writer);
  ASSERT_TRUE(session);
  for (int round = 0; round < 3; ++round) {
    auto outputs = session->run({at::ones(8)});
    ASSERT_TRUE(bool(outputs)) << llvm::toString(outputs.takeError());
    EXPECT_EQ(outputs->front().item<int64_t>(), 500'000);
  }
}

namespace {
/// An operator whose result is as long as a number or a tensor says.
struct LongResult {
  const char *name, *op;
  std::function<Slots(StageWriter &)> arguments;
};
class LongResultTest : public HostileValuesTest, public testing::WithParamInterface<LongResult> {};
} // namespace

TEST_P(LongResultTest, IsRefusedBeforeItIsMade) {
  stage.call(GetParam().op, GetParam().arguments(stage));
  EXPECT_THAT(failure(), HasSubstr(std::string(GetParam().op) + ": it would make a list or string of "));
}

static constexpr int64_t kHuge = int64_t(1) << 40;

static Slots padded(StageWriter &s) {
  return {s.constant(text("a")), s.constant(integer(kHuge)), s.constant(text(" "))};
}

/// 2^40 views of one number.
static uint32_t expanded(StageWriter &s) {
  const uint32_t one = s.weight("one", at::ones({1}));
  return s.call("aten::expand", {one, s.constant(integers({kHuge})), s.constant(boolean(false))});
}

static Slots pieces(StageWriter &s, int64_t number) {
  return {expanded(s), s.constant(integer(number)), s.constant(integer(0))};
}

static const LongResult kLong[] = {
    {"Ljust", "aten::ljust", padded},
    {"Rjust", "aten::rjust", padded},
    {"Center", "aten::center", padded},
    {"Zfill", "aten::zfill",
     [](StageWriter &s) { return Slots{s.constant(text("a")), s.constant(integer(kHuge))}; }},
    {"Tabs", "aten::expandtabs",
     [](StageWriter &s) { return Slots{s.constant(text("\t\t")), s.constant(integer(kHuge))}; }},
    {"Replace", "aten::replace",
     [](StageWriter &s) {
       const uint32_t long_ = s.constant(text(std::string(2000, 'a')));
       return Slots{long_, s.constant(text("a")), long_, s.constant(integer(-1))};
     }},
    {"Join", "aten::join",
     [](StageWriter &s) {
       const uint32_t part = s.constant(text(std::string(1 << 19, 'a')));
       return Slots{part, s.list("str", {part, part, part})};
     }},
    {"RepeatedList", "aten::mul.left_t",
     [](StageWriter &s) { return Slots{s.constant(integers({1, 2})), s.constant(integer(kHuge))}; }},
    {"ListRepeated", "aten::mul.right_",
     [](StageWriter &s) { return Slots{s.constant(integer(INT64_MAX)), s.constant(integers({1, 2}))}; }},
    {"Range", "prim::rangelist", [](StageWriter &s) { return Slots{s.constant(integer(kHuge))}; }},
    {"Unbind", "aten::unbind.int", [](StageWriter &s) { return Slots{expanded(s), s.constant(integer(0))}; }},
    {"Split", "aten::split.Tensor", [](StageWriter &s) { return pieces(s, 1); }},
    {"Chunk", "aten::chunk", [](StageWriter &s) { return pieces(s, kHuge); }},
    {"TensorSplit", "aten::tensor_split.sections", [](StageWriter &s) { return pieces(s, kHuge); }},
    {"Text", "aten::str", [](StageWriter &s) { return Slots{expanded(s)}; }},
    {"Format", "aten::format", [](StageWriter &s) { return Slots{s.constant(text("{}")), expanded(s)}; }},
};

INSTANTIATE_TEST_SUITE_P(All, LongResultTest, testing::ValuesIn(kLong),
                         [](const auto &info) { return std::string(info.param.name); });

//===- Outputs ------------------------------------------------------------===//

TEST_F(HostileValuesTest, OutputsThatShareMemoryAreWrittenOut) {
  const uint32_t one = stage.weight("one", at::ones({1}));
  const uint32_t sizes = stage.constant(integers({kHuge})), no = stage.constant(boolean(false));
  const uint32_t wide = stage.call("aten::expand", {one, sizes, no}, "net.wide");
  writer.plan->memory_limits = {1 << 20};
  EXPECT_THAT(failure(wide), StartsWith("rank 0 (stage 0): net.wide: aten::expand: output y: cpu:0: "));
}

// No machine has 4 EB.
TEST_F(HostileValuesTest, OutputsThatNoMachineCanHold) {
  const uint32_t one = stage.weight("one", at::ones({1}));
  const uint32_t sizes = stage.constant(integers({int64_t(1) << 60})), no = stage.constant(boolean(false));
  const uint32_t wide = stage.call("aten::expand", {one, sizes, no}, "net.wide");
  EXPECT_THAT(failure(wide),
              StartsWith("rank 0 (stage 0): net.wide: aten::expand: output y: cpu:0: no memory "));
}

TEST_F(HostileValuesTest, OutputsHaveMemoryForEachElement) {
  const uint32_t one = stage.weight("one", at::ones({1}));
  const uint32_t sizes = stage.constant(integers({3})), no = stage.constant(boolean(false));
  writer.output("y", 0, stage.output(stage.call("aten::expand", {one, sizes, no})));
  auto session = open(writer);
  ASSERT_TRUE(session);
  auto outputs = session->run({at::ones(8)});
  ASSERT_TRUE(bool(outputs)) << llvm::toString(outputs.takeError());
  EXPECT_TRUE(at::equal(outputs->front(), at::ones({3})));
  EXPECT_EQ(outputs->front().storage().nbytes(), 12u);
}

//===- Inputs -------------------------------------------------------------===//

// The caller's secret lies behind the input.
TEST_F(HostileValuesTest, SeesNothingAroundItsInputs) {
  for (int64_t offset : {0, 8, 16}) {
    PlanWriter other{{0}};
    StageWriter &reader = other.stage(0);
    other.input("x", tensorType(DType::Float, {8}));
    const uint32_t x = reader.input(0), one = reader.constant(integers({1}));
    const uint32_t all = reader.call(
        "aten::as_strided", {x, reader.constant(integers({24})), one, reader.constant(integer(0))}, "net");
    other.output("y", 0, reader.output(all));
    auto session = open(other);
    ASSERT_TRUE(session);
    const at::Tensor buffer = at::full({24}, 4711.f);
    EXPECT_THAT(failureOf(session->run({buffer.slice(0, offset, offset + 8)})),
                HasSubstr("reaches outside a tensor [8]"));
  }
}

TEST_F(HostileValuesTest, TakesSlicesWithoutCopying) {
  writer.output("y", 0, stage.output(stage.call("aten::detach", {stage.input(0)})));
  auto session = open(writer);
  ASSERT_TRUE(session);
  at::Tensor buffer = at::arange(24, at::kFloat);
  const void *place = buffer.slice(0, 8, 16).const_data_ptr();
  auto outputs = session->run({buffer.slice(0, 8, 16)});
  ASSERT_TRUE(bool(outputs)) << llvm::toString(outputs.takeError());
  EXPECT_EQ(outputs->front().const_data_ptr(), place);
  // It lives as long as anybody reads it.
  buffer.reset();
  EXPECT_TRUE(at::equal(outputs->front(), at::arange(8, 16, at::kFloat)));
}

} // namespace cleave::runtime
