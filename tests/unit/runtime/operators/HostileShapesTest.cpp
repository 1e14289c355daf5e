//===- HostileShapesTest.cpp - Sizes and strides that kernels trust -------===//
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using plan::DType;
using plan::InstructionKind;
using testing::HasSubstr;

namespace {
/// Plans of one stage, whose input has eight numbers.
class HostileShapesTest : public PlanTest {
protected:
  HostileShapesTest() { writer.input("x", tensorType(DType::Float, {8})); }
  uint32_t numbers(std::initializer_list<int64_t> values) { return stage.constant(integers(values)); }
  uint32_t number(int64_t value) { return stage.constant(integer(value)); }
  uint32_t nothing() { return stage.constant(none()); }
  uint32_t no() {
    plan::Constant constant = integer(0);
    constant.kind = plan::ConstantKind::Bool;
    return stage.constant(constant);
  }
  /// What a request gives that has `output`, or fails with.
  llvm::Expected<at::Tensor> given(uint32_t output) {
    writer.output("y", 0, stage.output(output));
    auto session = open(writer);
    if (!session)
      return llvm::createStringError("the plan cannot be opened");
    auto outputs = session->run({at::arange(8, at::kFloat)});
    return outputs ? llvm::Expected<at::Tensor>(outputs->front()) : outputs.takeError();
  }
  std::string failure(uint32_t output) { return failureOf(given(output)); }

  PlanWriter writer{{0}};
  StageWriter &stage = writer.stage(0);
};
} // namespace

//===- Views --------------------------------------------------------------===//

TEST_F(HostileShapesTest, SeesNothingBetweenTheElementsOfANewTensor) {
  const uint32_t apart = stage.call(
      "aten::empty_strided", {numbers({2}), numbers({6000}), number(4), nothing(), nothing(), nothing()});
  EXPECT_THAT(failure(stage.call("aten::as_strided", {apart, numbers({6002}), numbers({1}), nothing()})),
              HasSubstr("reaches outside a tensor [2]"));
}

TEST_F(HostileShapesTest, SeesZerosBetweenTheElementsOfANewTensor) {
  const uint32_t apart = stage.call(
      "aten::empty_strided", {numbers({2}), numbers({6000}), number(4), nothing(), nothing(), nothing()});
  auto output = given(stage.call("aten::as_strided", {apart, numbers({6001}), numbers({1}), nothing()}));
  ASSERT_TRUE(bool(output)) << llvm::toString(output.takeError());
  EXPECT_EQ(output->count_nonzero().item().toLong(), 0);
}

// Storage is larger than what an operator has left of it.
TEST_F(HostileShapesTest, SeesNothingBehindAResult) {
  plan::Constant yes = integer(1);
  yes.kind = plan::ConstantKind::Bool;
  const uint32_t always = stage.constant(yes);
  const uint32_t zeros = stage.weight("zeros", at::zeros({8}));
  const uint32_t counts =
      stage.call("aten::unique_consecutive", {zeros, always, always, nothing()}, "net", 3) + 2;
  EXPECT_THAT(failure(stage.call("aten::as_strided", {counts, numbers({8}), numbers({1}), number(0)})),
              HasSubstr("reaches outside a tensor [1]"));
}

TEST_F(HostileShapesTest, SeesNothingAroundAView) {
  const uint32_t part =
      stage.call("aten::slice.Tensor", {stage.input(0), number(0), number(2), number(4), number(1)});
  EXPECT_THAT(failure(stage.call("aten::as_strided", {part, numbers({2}), numbers({1}), number(0)})),
              HasSubstr("reaches outside a tensor [2]"));
}

TEST_F(HostileShapesTest, ViewsWhatATensorShows) {
  const uint32_t part =
      stage.call("aten::slice.Tensor", {stage.input(0), number(0), number(2), number(8), number(1)});
  auto output = given(stage.call("aten::as_strided", {part, numbers({2, 3}), numbers({2, 1}), nothing()}));
  ASSERT_TRUE(bool(output)) << llvm::toString(output.takeError());
  EXPECT_TRUE(at::equal(*output, at::tensor({2.f, 3.f, 4.f, 4.f, 5.f, 6.f}).reshape({2, 3})));
}

//===- Quantized tensors --------------------------------------------------===//

TEST_F(HostileShapesTest, RefusesQuantizedTensorsWithoutScales) {
  const uint32_t quantized =
      stage.call("aten::quantize_per_tensor",
                 {stage.input(0), stage.constant(real(0.5)), number(1), number(int64_t(at::kQUInt8))});
  EXPECT_THAT(failure(stage.call("aten::dequantize.self",
                                 {stage.call("aten::view.dtype", {quantized, number(int64_t(at::kChar))})})),
              HasSubstr("aten::view.dtype: found a quantized tensor that has lost its scales"));
}

//===- Dimensions ---------------------------------------------------------===//

TEST_F(HostileShapesTest, JoinsNothingThatHasNoDimensions) {
  const uint32_t scalar = stage.weight("s", at::ones({}));
  EXPECT_THAT(
      failure(stage.call("aten::_chunk_cat", {stage.list("Tensor", {scalar, scalar}), number(0), number(1)})),
      HasSubstr("found a tensor without dimensions"));
}

struct ShiftTest : HostileShapesTest, testing::WithParamInterface<const char *> {};

TEST_P(ShiftTest, ShiftsAlongFewDimensions) {
  const uint32_t many = stage.constant(integers(std::vector<int64_t>(200'000, 0)));
  std::vector<uint32_t> arguments = {stage.input(0), many};
  if (llvm::StringRef(GetParam()) == "aten::roll")
    arguments.push_back(many);
  EXPECT_THAT(failure(stage.call(GetParam(), arguments)),
              HasSubstr("found 200000 dimensions, expected at most 64"));
}

INSTANTIATE_TEST_SUITE_P(Operators, ShiftTest,
                         testing::Values("aten::roll", "aten::fft_fftshift", "aten::fft_ifftshift"));

TEST_F(HostileShapesTest, MakesTensorsOfFewDimensions) {
  const uint32_t many = stage.constant(integers(std::vector<int64_t>(65, 1)));
  const uint32_t one =
      stage.call("aten::slice.Tensor", {stage.input(0), number(0), number(0), number(1), number(1)});
  EXPECT_THAT(failure(stage.call("aten::view", {one, many})),
              HasSubstr("found a tensor of 65 dimensions, expected at most 64"));
}

TEST_F(HostileShapesTest, MakesGridsOfFewDimensions) {
  EXPECT_THAT(failure(stage.call("aten::combinations", {stage.input(0), number(1'000'000), no()})),
              HasSubstr("found 1000000 dimensions, expected at most 64"));
}

//===- Groups of rows -----------------------------------------------------===//

// Rows of no group are those of experts that another rank has.
TEST_F(HostileShapesTest, SeesZerosBehindTheLastGroup) {
  const Slots operands = {stage.weight("a", at::ones({16, 8}, at::kBFloat16)),
                          stage.weight("b", at::ones({2, 8, 16}, at::kBFloat16)),
                          stage.weight("ends", at::tensor({2, 4}, at::kInt)), nothing(), nothing()};
  auto output = given(stage.call("aten::_grouped_mm", operands));
  ASSERT_TRUE(bool(output)) << llvm::toString(output.takeError());
  EXPECT_TRUE(at::equal(output->slice(0, 0, 4), at::full({4, 16}, 8, at::kBFloat16)));
  EXPECT_EQ(output->slice(0, 4).count_nonzero().item().toLong(), 0);
}

TEST_F(HostileShapesTest, ProductsOfGroupsEndWithTheirRows) {
  for (auto [ends, message] :
       {std::pair(at::tensor({2, 17}, at::kInt), "found a group that ends at 17, behind the last of 16"),
        std::pair(at::tensor({16, 4}, at::kInt), "found a group that ends at 4, before"),
        std::pair(at::tensor({-4, 16}, at::kInt), "found a group that ends at -4")}) {
    PlanWriter writer({0});
    writer.input("x", tensorType(DType::Float, {8}));
    StageWriter &stage = writer.stage(0);
    const uint32_t nothing = stage.constant(none());
    const Slots operands = {stage.weight("a", at::ones({16, 8}, at::kBFloat16)),
                            stage.weight("b", at::ones({2, 8, 16}, at::kBFloat16)),
                            stage.weight("ends", ends), nothing, nothing};
    writer.output("y", 0, stage.output(stage.call("aten::_grouped_mm", operands)));
    auto session = open(writer);
    ASSERT_TRUE(session);
    EXPECT_THAT(failureOf(session->run({at::ones(8)})), HasSubstr(message));
  }
}

//===- Bags of rows -------------------------------------------------------===//

// Such as one column of a table of numbers.
TEST_F(HostileShapesTest, TakesBagsOfIndicesWithGaps) {
  const uint32_t all = stage.weight("ids", at::tensor({1l, 9l, 0l, 9l, 3l, 9l}).reshape({3, 2}));
  const uint32_t column = stage.call("aten::select.int", {all, number(1), number(0)});
  const Slots operands = {stage.weight("table", at::arange(8, at::kFloat).reshape({4, 2})),
                          column,
                          stage.weight("offsets", at::tensor({0l, 2l})),
                          no(),
                          number(0),
                          no(),
                          nothing(),
                          no()};
  auto output = given(stage.call("aten::embedding_bag", operands, "net", 4));
  ASSERT_TRUE(bool(output)) << llvm::toString(output.takeError());
  EXPECT_TRUE(at::equal(*output, at::tensor({2.f, 4.f, 6.f, 7.f}).reshape({2, 2})));
}

//===- Numbers, texts and tables ------------------------------------------===//

TEST_F(HostileShapesTest, SolvesSystemsOfFiniteNumbers) {
  EXPECT_THAT(
      failure(stage.call("aten::linalg_lstsq",
                         {stage.weight("a", at::full({4, 3}, NAN)), stage.weight("b", at::ones({4, 1})),
                          nothing(), stage.constant(text("gelsd"))},
                         "net", 4)),
      HasSubstr("found numbers that are not finite"));
}

TEST_F(HostileShapesTest, ReplacesTextThatIsThere) {
  const uint32_t empty = stage.constant(text(""));
  stage.call("aten::replace", {stage.constant(text("abc")), empty, stage.constant(text("x")), number(-1)});
  EXPECT_THAT(failure(stage.input(0)), HasSubstr("found an empty string to be replaced"));
}

TEST_F(HostileShapesTest, ConvertsToADTypeThatIsGiven) {
  EXPECT_THAT(failure(stage.call("aten::to.prim_Device", {stage.input(0), nothing(), nothing(), no(), no()})),
              HasSubstr("found no dtype, expected one"));
}

// Multiples of the inverse of the factor by which libtorch multiplies hashes: all have the same slot.
TEST_F(HostileShapesTest, RefusesDictsThatGrowWithoutEnd) {
  Slots operands;
  for (uint64_t i = 1; i <= 24; ++i) {
    operands.push_back(number(int64_t(i * 17428512612931826493u)));
    operands.push_back(stage.input(0));
  }
  stage.emit(InstructionKind::Dict, operands, 1, {}, "int, Tensor");
  EXPECT_THAT(failure(stage.input(0)), HasSubstr("Dict: found a dict of 24 keys with similar hashes"));
}

TEST_F(HostileShapesTest, MakesDictsOfManyKeys) {
  Slots operands;
  for (int64_t i = 0; i < 5000; ++i) {
    operands.push_back(number(i % 2 ? i : i << 40));
    operands.push_back(stage.input(0));
  }
  stage.emit(InstructionKind::Dict, operands, 1, {}, "int, Tensor");
  EXPECT_EQ(failure(stage.input(0)), "");
}

} // namespace cleave::runtime
