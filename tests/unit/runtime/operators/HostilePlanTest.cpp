//===- HostilePlanTest.cpp - Plans that reach beyond their tensors --------===//
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using plan::DType;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

using HostilePlanTest = PlanTest;

/// One stage that gives the first result of `op`; `arguments` writes its operands.
static void write(PlanWriter &writer, const std::string &op,
                  llvm::function_ref<Slots(StageWriter &)> arguments, size_t results = 1) {
  writer.input("x", tensorType(DType::Float, {8}));
  StageWriter &stage = writer.stage(0);
  stage.output(stage.call(op, arguments(stage), "net", results));
  writer.output("y", 0, 0);
}

static plan::Constant device(std::string name) {
  plan::Constant constant = text(std::move(name));
  constant.kind = plan::ConstantKind::Device;
  return constant;
}

//===- Operators that no plan may call ------------------------------------===//

namespace {
class UnlistedOperatorTest : public PlanTest, public testing::WithParamInterface<const char *> {};
} // namespace

TEST_P(UnlistedOperatorTest, IsRefusedBeforeItRuns) {
  PlanWriter writer({0});
  write(writer, GetParam(), [](StageWriter &stage) { return Slots{stage.input(0)}; });
  // Some are made by code of libtorch's that is not loaded.
  EXPECT_THAT(openFailure(writer),
              AnyOf(std::string("the plan calls ") + GetParam() +
                        ", which not every plan may; where you trust this one, pass --allow-operator " +
                        GetParam(),
                    HasSubstr(std::string("this libtorch has no operator ") + GetParam())));
}

INSTANTIATE_TEST_SUITE_P(
    All, UnlistedOperatorTest,
    testing::Values(
        // Views and tensors of any memory.
        "aten::_reshape_alias", "aten::_reshape_alias_copy", "aten::set_.source_Storage",
        "aten::_efficientzerotensor", "aten::_nested_view_from_buffer", "inductor::_reinterpret_tensor",
        "inductor::_alloc_from_pool", "aten::_sparse_coo_tensor_unsafe",
        "aten::_sparse_coo_tensor_with_dims_and_tensors", "aten::sparse_coo_tensor.indices",
        "aten::to_sparse", "aten::_to_dense", "aten::resize", "aten::_lazy_clone", "aten::slice_inverse",
        // Kernels that trust indices.
        "aten::segment_reduce", "aten::_ctc_loss", "aten::_embedding_bag_dense_backward",
        "aten::_cdist_backward", "aten::_pad_packed_sequence", "quantized::embedding_bag_4bit_unpack",
        "aten::lcm",
        // Names are kept as long as the process lives.
        "aten::rename", "aten::zeros.names",
        // Files, the terminal, processes, settings.
        "aten::from_file", "aten::save", "aten::warn", "aten::_print", "prim::Print", "prim::PythonOp",
        "prim::fork", "aten::manual_seed", "aten::set_grad_enabled", "aten::backward", "c10d::send",
        "debugprims::load_tensor", "profiler::_record_function_enter", "symm_mem::one_shot_all_reduce",
        "aten::add_.Tensor"));

//===- Arguments that kernels trust ---------------------------------------===//

namespace {
/// A call that kernels would take, and what its request ends with.
struct HostileCall {
  const char *name, *op;
  std::function<Slots(StageWriter &)> arguments;
  const char *message;
  size_t results = 1;
};

class HostileCallTest : public PlanTest, public testing::WithParamInterface<HostileCall> {};
} // namespace

TEST_P(HostileCallTest, EndsWithAnError) {
  const HostileCall &call = GetParam();
  PlanWriter writer({0});
  write(writer, call.op, call.arguments, call.results);
  auto session = open(writer);
  ASSERT_TRUE(session);
  EXPECT_THAT(failureOf(session->run({at::ones(8)})),
              AllOf(StartsWith("rank 0 (stage 0): "), HasSubstr(call.message)));
}

static plan::Constant no() {
  plan::Constant constant = integer(0);
  constant.kind = plan::ConstantKind::Bool;
  return constant;
}

static uint32_t indices(StageWriter &stage, at::IntArrayRef sizes, int64_t value) {
  return stage.weight("indices", at::full(sizes, value, at::kLong));
}

static uint32_t ones(StageWriter &stage, const std::string &name, at::IntArrayRef sizes) {
  return stage.weight(name, at::ones(sizes));
}

/// Of a kernel of 2 x 2 over 4 x 4, whose indices are `index`.
static Slots pooled(StageWriter &stage, int64_t index) {
  uint32_t two = stage.constant(integers({2, 2})), zero = stage.constant(integers({0, 0})),
           one = stage.constant(integers({1, 1}));
  return {ones(stage, "g", {1, 2, 2}), ones(stage, "x", {1, 4, 4}),     two, two, zero, one,
          stage.constant(no()),        indices(stage, {1, 2, 2}, index)};
}

static Slots made(StageWriter &stage, plan::Constant dtype, plan::Constant layout, plan::Constant where) {
  return {stage.constant(integers({3})), stage.constant(dtype), stage.constant(layout), stage.constant(where),
          stage.constant(none())};
}

static Slots copied(StageWriter &stage, int64_t format) {
  return {stage.input(0), stage.constant(integer(format))};
}

static Slots bag(StageWriter &stage, int64_t index, int64_t offset, int64_t mode) {
  return {ones(stage, "table", {4, 2}),
          indices(stage, {3}, index),
          stage.weight("offsets", at::full({1}, offset, at::kLong)),
          stage.constant(no()),
          stage.constant(integer(mode)),
          stage.constant(no()),
          stage.constant(none()),
          stage.constant(no())};
}

static Slots sampler(StageWriter &stage, int64_t mode, int64_t padding) {
  return {ones(stage, "image", {1, 1, 2, 2}), ones(stage, "grid", {1, 2, 2, 2}),
          stage.constant(integer(mode)), stage.constant(integer(padding)), stage.constant(no())};
}

static Slots two(StageWriter &stage, int64_t first, int64_t second) {
  return {stage.constant(integer(first)), stage.constant(integer(second))};
}

static Slots row(StageWriter &stage, int64_t index) {
  return {ones(stage, "g", {3, 2}), indices(stage, {3}, index), stage.constant(integer(4)),
          stage.constant(integer(-1)), stage.constant(no())};
}

/// Images of bytes that are resized from 4 x 4 to 2 x 2, told that `scale` is the ratio.
static Slots resized(StageWriter &stage, double scale) {
  const uint32_t ratio = stage.constant(real(scale));
  return {stage.weight("image", at::ones({1, 3, 4, 4}, at::kByte)), stage.constant(integers({2, 2})), ratio,
          ratio};
}

static Slots divided(StageWriter &stage, at::ScalarType type, int64_t dividend, at::IntArrayRef divisors) {
  return {stage.weight("a", at::full({3}, dividend, type)), stage.weight("b", at::full(divisors, -1, type)),
          stage.constant(text("trunc"))};
}

/// A table of bytes with a scale for each of its four rows.
static uint32_t table(StageWriter &stage) {
  return stage.call("aten::_make_per_channel_quantized_tensor",
                    {stage.weight("bytes", at::ones({4, 8}, at::kByte)), ones(stage, "scales", {4}),
                     stage.weight("zeros", at::zeros({4})), stage.constant(integer(0))});
}

static Slots window(StageWriter &stage, int64_t size) {
  return {ones(stage, "image", {1, 1, 8}), stage.constant(integers({size})), stage.constant(integers({})),
          stage.constant(integers({0})),   stage.constant(integers({1})),    stage.constant(no())};
}

static const HostileCall kCalls[] = {
    {"PoolIndexBehind", "aten::max_pool2d_with_indices_backward",
     [](StageWriter &s) { return pooled(s, 1 << 20); },
     "found an index of 1048576, expected one from 0 to 15"},
    {"PoolIndexBefore", "aten::max_pool2d_with_indices_backward",
     [](StageWriter &s) { return pooled(s, -1); }, "found an index of -1"},
    {"AdaptivePoolIndex", "aten::adaptive_max_pool2d_backward",
     [](StageWriter &s) {
       return Slots{ones(s, "g", {1, 2, 2}), ones(s, "x", {1, 4, 4}), indices(s, {1, 2, 2}, 16)};
     },
     "found an index of 16"},
    {"AdaptivePoolSizes", "aten::adaptive_max_pool2d_backward",
     [](StageWriter &s) {
       return Slots{ones(s, "g", {7, 2, 2}), ones(s, "x", {1, 4, 4}), indices(s, {7, 2, 2}, 0)};
     },
     "found a gradient [7, 2, 2] of an input [1, 4, 4]"},
    {"RowBehind", "aten::embedding_dense_backward", [](StageWriter &s) { return row(s, 4); },
     "found an index of 4"},
    {"RowBefore", "aten::embedding_dense_backward", [](StageWriter &s) { return row(s, -9); },
     "found an index of -9"},
    {"BagIndex", "aten::embedding_bag", [](StageWriter &s) { return bag(s, int64_t(1) << 40, 0, 0); },
     "expected one from 0 to 3", 4},
    {"BagOffset", "aten::embedding_bag", [](StageWriter &s) { return bag(s, 0, -3, 0); },
     "found an index of -3", 4},
    {"BagMode", "aten::embedding_bag", [](StageWriter &s) { return bag(s, 0, 0, 9); }, "found the mode 9", 4},
    {"SamplerMode", "aten::grid_sampler", [](StageWriter &s) { return sampler(s, 17, 0); },
     "found the mode 17"},
    {"SamplerPadding", "aten::grid_sampler", [](StageWriter &s) { return sampler(s, 0, -1); },
     "found the mode -1"},
    {"Window", "aten::max_pool1d", [](StageWriter &s) { return window(s, INT64_MAX); },
     "expected a number of 32 bits"},
    {"RemainderOfZero", "aten::remainder.int", [](StageWriter &s) { return two(s, 1, 0); },
     "division by zero"},
    {"LeastQuotient", "aten::floordiv.int", [](StageWriter &s) { return two(s, INT64_MIN, -1); },
     "does not fit in 64 bits"},
    {"DTypeBehind", "aten::zeros", [](StageWriter &s) { return made(s, integer(4711), none(), none()); },
     "found the dtype 4711"},
    {"DTypeBefore", "aten::ones", [](StageWriter &s) { return made(s, integer(-1), none(), none()); },
     "found the dtype -1"},
    {"DTypeOfHalfBytes", "aten::zeros", [](StageWriter &s) { return made(s, integer(16), none(), none()); },
     "found the dtype 16"},
    {"Layout", "aten::zeros", [](StageWriter &s) { return made(s, none(), integer(1), none()); },
     "found the layout 1"},
    {"MetaDevice", "aten::zeros", [](StageWriter &s) { return made(s, none(), none(), device("meta")); },
     "found the device meta"},
    {"MemoryFormat", "aten::contiguous", [](StageWriter &s) { return copied(s, 99); },
     "found the memory format 99"},
    {"HeadsOfNone", "aten::scaled_dot_product_attention",
     [](StageWriter &s) {
       plan::Constant yes = no();
       yes.integer = 1;
       return Slots{ones(s, "q", {2, 3, 4}),
                    s.weight("k", at::empty({0, 3, 4})),
                    s.weight("v", at::empty({0, 3, 4})),
                    s.constant(none()),
                    s.constant(real(0)),
                    s.constant(no()),
                    s.constant(none()),
                    s.constant(yes)};
     },
     "which have no head"},
    {"HeadsOfNoneByHand", "aten::_scaled_dot_product_attention_math",
     [](StageWriter &s) {
       plan::Constant yes = no();
       yes.integer = 1;
       return Slots{ones(s, "q", {1, 2, 3, 4}),
                    s.weight("k", at::empty({1, 0, 3, 4})),
                    s.weight("v", at::empty({1, 0, 3, 4})),
                    s.constant(none()),
                    s.constant(real(0)),
                    s.constant(no()),
                    s.constant(none()),
                    s.constant(none()),
                    s.constant(yes)};
     },
     "which have no head", 2},
    {"LengthsOfOthers", "aten::_weight_norm",
     [](StageWriter &s) { return Slots{ones(s, "v", {2, 3}), ones(s, "g", {7, 1}), s.constant(integer(0))}; },
     "found lengths [7, 1]"},
    {"StridesBeyond", "aten::as_strided",
     [](StageWriter &s) {
       return Slots{s.input(0), s.constant(integers({4000})), s.constant(integers({1})), s.constant(none())};
     },
     "reaches outside a tensor [8]"},
    {"OffsetBeyond", "aten::as_strided",
     [](StageWriter &s) {
       return Slots{s.input(0), s.constant(integers({1})), s.constant(integers({1})),
                    s.constant(integer(1 << 30))};
     },
     "reaches outside a tensor [8]"},
    {"RowOfNone", "aten::index_select",
     [](StageWriter &s) { return Slots{s.input(0), s.constant(integer(0)), indices(s, {1}, 8)}; },
     "out of range"},
    {"GatheredBeyond", "aten::gather",
     [](StageWriter &s) {
       return Slots{s.input(0), s.constant(integer(0)), indices(s, {1}, -9), s.constant(no())};
     },
     "out of bounds"},
    {"ScaleOfNothing", "aten::upsample_nearest2d", [](StageWriter &s) { return resized(s, 1e-19); },
     "found the scale 1e-19 from 4 to 2"},
    {"ScaleOfNoNumber", "aten::_upsample_nearest_exact2d", [](StageWriter &s) { return resized(s, NAN); },
     "found the scale nan from 4 to 2"},
    {"NegativeScale", "aten::upsample_nearest2d", [](StageWriter &s) { return resized(s, -0.5); },
     "found the scale -0.5"},
    {"InfiniteScale", "aten::upsample_nearest2d", [](StageWriter &s) { return resized(s, INFINITY); },
     "found the scale inf"},
    {"ScaleOfABilinear", "aten::upsample_bilinear2d",
     [](StageWriter &s) {
       Slots slots = resized(s, 1e-19);
       slots.insert(slots.begin() + 2, s.constant(no()));
       return slots;
     },
     "found the scale 1e-19"},
    {"ScaleOfAGradient", "aten::upsample_nearest2d_backward",
     [](StageWriter &s) {
       const uint32_t ratio = s.constant(real(1e-19));
       return Slots{ones(s, "g", {1, 1, 2, 2}), s.constant(integers({2, 2})),
                    s.constant(integers({1, 1, 4, 4})), ratio, ratio};
     },
     "found the scale 1e-19 from 4 to 2"},
    {"ScaleFactors", "aten::upsample_nearest2d.vec",
     [](StageWriter &s) {
       const uint32_t ratio = s.constant(real(1e-19));
       return Slots{ones(s, "x", {1, 1, 4, 4}), s.constant(none()), s.list("float", {ratio, ratio})};
     },
     "found the scale 1e-19 of 4"},
    {"LeastQuotientOfTensors", "aten::div.Tensor_mode",
     [](StageWriter &s) { return divided(s, at::kLong, INT64_MIN, {3}); }, "does not fit in Long"},
    {"LeastQuotientOfInts", "aten::divide.Tensor_mode",
     [](StageWriter &s) { return divided(s, at::kInt, INT32_MIN, {1}); }, "does not fit in Int"},
    {"LeastQuotientByANumber", "aten::div.Scalar_mode",
     [](StageWriter &s) {
       return Slots{s.weight("a", at::full({3}, INT32_MIN, at::kInt)), s.constant(integer(-1)),
                    s.constant(text("trunc"))};
     },
     "does not fit in Int"},
    {"LeastDivisor", "aten::gcd.int", [](StageWriter &s) { return two(s, INT64_MIN, -1); },
     "does not fit in 64 bits"},
    {"LeastDivisorSecond", "aten::gcd.int", [](StageWriter &s) { return two(s, -1, INT64_MIN); },
     "does not fit in 64 bits"},
    {"BetaOfIntegers", "aten::smooth_l1_loss_backward",
     [](StageWriter &s) {
       const uint32_t x = s.weight("x", at::ones({3}, at::kInt));
       return Slots{x, x, x, s.constant(integer(0)), s.constant(real(0.5))};
     },
     "found integers"},
    {"ViewedTable", "quantized::embedding_bag_prepack",
     [](StageWriter &s) { return Slots{s.call("aten::view", {table(s), s.constant(integers({32, 1}))})}; },
     "aten::view: found a tensor that is quantized by channel"},
    {"ChosenRowsOfATable", "aten::cat",
     [](StageWriter &s) { return Slots{s.list("Tensor", {table(s)}), s.constant(integer(0))}; },
     "found a tensor that is quantized by channel"},
    {"RepeatsThatOverflow", "aten::repeat_interleave.Tensor",
     [](StageWriter &s) { return Slots{indices(s, {4}, int64_t(1) << 62), s.constant(none())}; },
     "found an index of 4611686018427387904"},
    {"RepeatsOfANumber", "aten::repeat_interleave.self_int",
     [](StageWriter &s) {
       const uint32_t nothing = s.constant(none());
       return Slots{ones(s, "x", {4}), s.constant(integer(int64_t(1) << 62)), nothing, nothing};
     },
     "found 4611686018427387904 repeats"},
    {"DivmodOfZero", "aten::divmod.int", [](StageWriter &s) { return two(s, 1, 0); }, "division by zero", 2},
    {"LeastDivmod", "aten::divmod.int", [](StageWriter &s) { return two(s, INT64_MIN, -1); },
     "does not fit in 64 bits", 2},
    {"ParametersOfOthers", "aten::gru.input",
     [](StageWriter &s) {
       return Slots{ones(s, "x", {5, 2, 6}),
                    ones(s, "h", {1, 2, 4}),
                    s.list("Tensor", {ones(s, "w", {12, 6}), ones(s, "u", {1, 4})}),
                    s.constant(no()),
                    s.constant(integer(1)),
                    s.constant(real(0)),
                    s.constant(no()),
                    s.constant(no()),
                    s.constant(no())};
     },
     "found a parameter [1, 4], expected [12, 4]", 2},
    {"WeightsBeyondHalf", "quantized::linear_prepack_fp16",
     [](StageWriter &s) { return Slots{s.weight("w", at::full({8, 8}, 1e30f)), s.constant(none())}; },
     "found weights beyond 65504"},
    {"OneObservation", "aten::cov",
     [](StageWriter &s) {
       return Slots{ones(s, "x", {1, 1}), s.constant(integer(1)), s.constant(none()), ones(s, "w", {1})};
     },
     "found one weighted observation"},
    {"NumbersWithoutEnd", "aten::range.step",
     [](StageWriter &s) {
       const uint32_t nothing = s.constant(none());
       return Slots{s.constant(integer(0)),
                    s.constant(integer(4)),
                    s.constant(real(1e-30)),
                    nothing,
                    nothing,
                    nothing,
                    nothing};
     },
     "found a range of 4e+30 numbers"},
    {"PaddingThatOverflows", "aten::replication_pad3d",
     [](StageWriter &s) {
       return Slots{ones(s, "x", {1, 3, 3, 3, 3}), s.constant(integers({INT64_MAX, INT64_MAX, 1, 1, 1, 1}))};
     },
     "found a padding of 9223372036854775807"},
    {"TargetsOfOthers", "aten::soft_margin_loss",
     [](StageWriter &s) { return Slots{ones(s, "x", {0}), ones(s, "t", {}), s.constant(integer(4097))}; },
     "found a target []"},
    {"TensorAmongNumbers", "aten::zeros",
     [](StageWriter &s) {
       uint32_t missing = s.constant(none());
       return Slots{s.list("int", {s.input(0)}), missing, missing, missing, missing};
     },
     "found a Tensor among values of type int"},
};

INSTANTIATE_TEST_SUITE_P(All, HostileCallTest, testing::ValuesIn(kCalls),
                         [](const auto &info) { return std::string(info.param.name); });

//===- Arguments that are as kernels need them ----------------------------===//

// What F.interpolate gives: the size is that of the scale, rounded down.
TEST_F(HostilePlanTest, ResizesByScalesThatFit) {
  for (double scale : {0.3, 0.5, 1.5, 2.0, 7.9}) {
    PlanWriter writer({0});
    const int64_t size = int64_t(9 * scale);
    write(writer, "aten::upsample_bilinear2d", [&](StageWriter &stage) {
      const uint32_t ratio = stage.constant(real(scale));
      return Slots{ones(stage, "image", {1, 1, 9, 9}), stage.constant(integers({size, size})),
                   stage.constant(no()), ratio, ratio};
    });
    auto session = open(writer);
    ASSERT_TRUE(session);
    EXPECT_EQ(failureOf(session->run({at::ones(8)})), "") << scale;
  }
}

TEST_F(HostilePlanTest, OutputsOfOneColumnAreRightOrRefused) {
  const at::Tensor image = at::arange(1 * 2 * 6 * 4).reshape({1, 2, 6, 4}).remainder(5);
  const at::Tensor window = at::arange(4 * 2 * 2 * 3).reshape({4, 2, 2, 3}).remainder(3);
  PlanWriter writer({0});
  write(writer, "aten::conv2d", [&](StageWriter &stage) {
    return Slots{stage.weight("image", image.to(at::kBFloat16)),
                 stage.weight("window", window.to(at::kBFloat16)),
                 stage.constant(none()),
                 stage.constant(integers({1, 3})),
                 stage.constant(integers({0, 0})),
                 stage.constant(integers({1, 1})),
                 stage.constant(integer(1))};
  });
  auto session = open(writer);
  ASSERT_TRUE(session);
  auto outputs = session->run({at::ones(8)});
  if (!outputs) { // Of processors with AMX.
    EXPECT_THAT(llvm::toString(outputs.takeError()), HasSubstr("found an output of one column"));
    return;
  }
  const at::Tensor expected = at::conv2d(image.to(at::kDouble), window.to(at::kDouble), {}, {1, 3});
  EXPECT_TRUE(at::equal(outputs->front().to(at::kDouble), expected));
}

TEST_F(HostilePlanTest, DividesIntegersThatHaveAQuotient) {
  PlanWriter writer({0});
  write(writer, "aten::div.Tensor_mode", [](StageWriter &stage) {
    const at::Tensor dividends = at::tensor({int64_t(-7), INT64_MIN}), divisors = at::tensor({-1l, 2l});
    return Slots{stage.weight("a", dividends), stage.weight("b", divisors), stage.constant(text("trunc"))};
  });
  auto session = open(writer);
  ASSERT_TRUE(session);
  auto outputs = session->run({at::ones(8)});
  ASSERT_TRUE(bool(outputs)) << llvm::toString(outputs.takeError());
  EXPECT_TRUE(at::equal(outputs->front(), at::tensor({7l, INT64_MIN / 2})));
}

// Large products go to oneDNN, which reads a bias without gaps.
TEST_F(HostilePlanTest, AddsBiasesThatLieApart) {
  const at::Tensor x = wholeNumbers({64, 256}), weight = wholeNumbers({256, 256}), both = wholeNumbers({512});
  PlanWriter writer({0});
  writer.input("x", tensorType(DType::Float, {64, 256}));
  StageWriter &stage = writer.stage(0);
  const uint32_t bias =
      stage.call("aten::as_strided", {stage.weight("b", both), stage.constant(integers({256})),
                                      stage.constant(integers({2})), stage.constant(integer(0))});
  const uint32_t input = stage.input(0), factor = stage.constant(integer(1));
  const uint32_t weights = stage.weight("w", weight), transposed = stage.call("aten::t", {weights});
  stage.output(stage.call("aten::linear", {input, weights, bias}));
  stage.output(stage.call("aten::addmm", {bias, input, transposed, factor, factor}));
  writer.output("y", 0, 0);
  writer.output("z", 0, 1);
  auto session = open(writer);
  ASSERT_TRUE(session);
  auto outputs = session->run({x});
  ASSERT_TRUE(bool(outputs)) << llvm::toString(outputs.takeError());
  const at::Tensor expected = at::matmul(x, weight.t()) + both.slice(0, 0, 512, 2);
  EXPECT_TRUE(at::equal((*outputs)[0], expected));
  EXPECT_TRUE(at::equal((*outputs)[1], expected));
}

//===- Memory that nobody has written to ----------------------------------===//

TEST_F(HostilePlanTest, GivesZerosForMemoryThatNobodyHasWrittenTo) {
  PlanWriter writer({0});
  write(writer, "aten::empty.memory_format", [](StageWriter &stage) {
    return Slots{stage.constant(integers({1 << 16})),
                 stage.constant(integer(4)),
                 stage.constant(none()),
                 stage.constant(none()),
                 stage.constant(none()),
                 stage.constant(none())};
  });
  writer.plan->signatures[0]->outputs[0]->type =
      std::make_unique<plan::TensorType>(tensorType(DType::Int64, {1 << 16}));
  auto session = open(writer);
  ASSERT_TRUE(session);
  c10::InferenceMode inference;
  for (int round = 0; round < 3; ++round) {
    auto outputs = session->run({at::ones(8)});
    ASSERT_TRUE(bool(outputs)) << llvm::toString(outputs.takeError());
    EXPECT_EQ(outputs->front().abs().sum().item<int64_t>(), 0);
    outputs->front().fill_(4711);
  }
}

//===- What whoever runs a plan allows ------------------------------------===//

TEST_F(HostilePlanTest, RunsWhatIsAllowedByName) {
  for (const char *name : {"aten::lcm", "aten::lcm.default", "aten::gcd"}) {
    PlanWriter writer({0});
    write(writer, "aten::lcm", [](StageWriter &stage) {
      uint32_t numbers = stage.weight("numbers", at::full({8}, 6, at::kLong));
      return Slots{numbers, numbers};
    });
    SessionOptions options;
    options.allowedOperators = {name};
    EXPECT_EQ(openFailure(writer, options).empty(), std::string(name) == "aten::lcm") << name;
  }
}

} // namespace cleave::runtime
