//===- PrecisionTest.cpp - Narrower types where they are asked for --------===//
#include "runtime/session/Precision.h"
#include "runtime/session/Session.h"
#include "tests/unit/runtime/TestModels.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

class PrecisionTest : public PlanTest, public testing::WithParamInterface<at::ScalarType> {};

/// What `model` gives under libtorch's autocast in this thread.
static at::Tensor autocasting(const TwoLayers &model, const at::Tensor &x, at::ScalarType dtype) {
  c10::InferenceMode inference;
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::ScalarType before = at::autocast::get_autocast_dtype(at::kCPU);
  at::autocast::set_autocast_dtype(at::kCPU, dtype);
  at::Tensor result = model.expected(x);
  at::autocast::set_autocast_dtype(at::kCPU, before);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  return result;
}

TEST_P(PrecisionTest, AutocastGivesTheBitsOfLibtorchs) {
  // Of the larger one float32 products would go to oneDNN, past the autocast.
  for (int64_t width : {8, 600}) {
    TwoLayers model(width, width);
    SessionOptions options;
    options.autocast = GetParam();
    auto session = open(model.writer, options);
    const at::Tensor x = at::randn({32, width}), y = llvm::cantFail(session->run({x}))[0];
    EXPECT_EQ(y.scalar_type(), GetParam());
    EXPECT_TRUE(at::equal(y, autocasting(model, x, GetParam()))) << width;
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU)) << "in the caller's thread";
    session.reset();
    llvm::sys::fs::remove_directories(path("a.plan"));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PrecisionTest, testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto &info) { return c10::toString(info.param); });

using PrecisionRefusals = PlanTest;

TEST_F(PrecisionRefusals, AutocastHasNoTypesToCheck) {
  TwoLayers model;
  SessionOptions options;
  options.autocast = at::kBFloat16;
  options.checkTypes = true;
  EXPECT_EQ(
      openFailure(model.writer, options),
      "autocast gives values other types than the plan predicts; leave --autocast or --check-types away");
}

TEST_F(PrecisionRefusals, CpusHaveNeitherTf32NorGraphs) {
  TwoLayers model;
  SessionOptions options;
  options.tf32 = true;
  EXPECT_EQ(openFailure(model.writer, options),
            "--tf32 is of GPUs, and no device is one; name one (--devices cuda:0), "
            "or leave it away");
  options.tf32 = false;
  options.cudaGraphs = true;
  EXPECT_THAT(failureOf(Session::open(path("a.plan"), options)),
              testing::StartsWith("--cuda-graphs is of GPUs"));
}

TEST_F(PrecisionRefusals, OneProcessOnACpuLeavesTf32ToTheOthers) {
  SessionOptions options;
  options.tf32 = true;
  options.devices = {"cpu:0", "cuda:0"};
  EXPECT_EQ(failureOf(setPrecision(options, ResolvedDevice{"cpu:0"})), "");
  options.devices = {"cpu:0", "cpu:1"};
  EXPECT_THAT(failureOf(setPrecision(options, ResolvedDevice{"cpu:0"})),
              testing::StartsWith("--tf32 is of GPUs"));
}

} // namespace cleave::runtime
