//===- SessionCaptureTest.cpp - Values are read and edited ----------------===//
#include "runtime/session/Session.h"
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <mutex>

namespace cleave::runtime {

using plan::DType;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {
/// `y = linear(relu(linear(x, w0)), w1) + b`, split over two tensor-parallel ranks. Modules: `hidden` (the
/// relu, of which each rank has half), `product` (a term on each rank) and `y`.
struct SplitModel {
  SplitModel() : writer({0}, /*tp=*/2) {
    writer.symbol("batch", 4);
    writer.input("x", tensorType(DType::Float, {-1, 8}));
    for (uint32_t rank : {0, 1}) {
      StageWriter &stage = writer.stage(0, rank);
      const std::vector<int64_t> half{rank * 3, 3};
      const uint32_t none = stage.constant(runtime::none());
      const uint32_t product =
          stage.call("aten::linear", {stage.input(0), stage.shard("w0", w0, 0, half), none});
      hidden = stage.call("aten::relu", {product});
      term = stage.call("aten::linear", {hidden, stage.shard("w1", w1, 1, half), none});
      const uint32_t sum = stage.call("spmd::all_reduce", {term});
      y = stage.call("aten::add.Tensor", {sum, stage.weight("b", b), stage.constant(integer(1))});
      stage.output(y);
    }
    writer.output("y", 0, 0);
    addPoint("hidden", hidden, 2, tensorType(DType::Float, {-1, 6}));
    for (uint32_t rank : {0, 1}) {
      auto ranges = std::make_unique<plan::wire::DimRangesT>();
      ranges->dim = 1;
      ranges->offsets = {rank * 3};
      ranges->sizes = {3};
      writer.plan->capture_points[0]->slots[rank]->ranges.push_back(std::move(ranges));
    }
    addPoint("product", term, 3, tensorType(DType::Float, {-1, 4})).partial = true;
    addPoint("y", y, 5, tensorType(DType::Float, {-1, 4}));
  }

  plan::CapturePoint &addPoint(const std::string &path, uint32_t slot, uint32_t after,
                               const plan::TensorType &type) {
    auto point = std::make_unique<plan::CapturePoint>();
    point->path = path;
    point->writable = true;
    point->type = std::make_unique<plan::wire::TensorTypeT>(type);
    for (uint32_t rank : {0, 1}) {
      point->slots.push_back(std::make_unique<plan::CaptureSlot>());
      point->slots.back()->tp_rank = rank;
      point->slots.back()->slot = slot;
      point->slots.back()->after = after;
    }
    writer.plan->capture_points.push_back(std::move(point));
    return *writer.plan->capture_points.back();
  }

  at::Tensor hiddenOf(const at::Tensor &x) const { return at::relu(at::linear(x, w0)); }
  at::Tensor yOf(const at::Tensor &hidden) const { return at::linear(hidden, w1) + b; }

  const at::Tensor w0 = at::randn({6, 8}), w1 = at::randn({4, 6}), b = at::randn({4});
  uint32_t hidden = 0, term = 0, y = 0;
  PlanWriter writer;
};
} // namespace

class SessionCaptureTest : public PlanTest {
protected:
  SplitModel model;
  const at::Tensor x = at::randn({5, 8});
};

static bool isClose(const at::Tensor &found, const at::Tensor &expected) {
  return at::allclose(found, expected, 1e-5, 1e-5);
}

TEST_F(SessionCaptureTest, ReadsWholeValues) {
  for (uint32_t dp : {1, 2}) {
    SplitModel model;
    model.writer.splitBatch(2);
    if (dp > 1)
      model.writer.addDataRanks(dp);
    auto session = open(model.writer);
    CaptureOptions options;
    options.points = {"*"};
    const CapturedRequest found = llvm::cantFail(session->capture({x}, options));
    ASSERT_EQ(found.values.size(), 3u);
    EXPECT_TRUE(isClose(found.values[0].tensor, model.hiddenOf(x)));
    EXPECT_TRUE(isClose(found.values[1].tensor, at::linear(model.hiddenOf(x), model.w1)));
    EXPECT_TRUE(at::equal(found.values[2].tensor, found.outputs[0]));
    EXPECT_TRUE(at::equal(found.outputs[0], llvm::cantFail(session->run({x}))[0]));
  }
}

TEST_F(SessionCaptureTest, CallsHooksForParts) {
  model.writer.splitBatch(2);
  auto session = open(model.writer);
  std::vector<std::string> calls;
  CaptureOptions options;
  auto add = [&](const at::Tensor &value, const HookContext &context) {
    calls.push_back(context.name + " " + std::to_string(context.firstSample) + "+" +
                    std::to_string(context.samples));
    return value + 1;
  };
  options.hooks = {{"hidden", add}};
  CapturedRequest found = llvm::cantFail(session->capture({x}, options));
  EXPECT_TRUE(isClose(found.outputs[0], model.yOf(model.hiddenOf(x) + 1)));
  EXPECT_THAT(calls, ElementsAre("hidden 0+3", "hidden 3+2"));
  options.hooks = {{"product", add}};
  found = llvm::cantFail(session->capture({x}, options));
  EXPECT_TRUE(isClose(found.outputs[0], model.yOf(model.hiddenOf(x)) + 1));
}

TEST_F(SessionCaptureTest, CallsWholeHooksOnce) {
  model.writer.splitBatch(2);
  auto session = open(model.writer);
  CaptureOptions options;
  int calls = 0;
  auto flip = [&](const at::Tensor &value, const HookContext &context) {
    ++calls;
    EXPECT_EQ(context.samples, 5);
    return value.flip(0);
  };
  options.hooks = {{"hidden", flip, /*takesWholeBatch=*/true}};
  const CapturedRequest found = llvm::cantFail(session->capture({x}, options));
  EXPECT_TRUE(isClose(found.outputs[0], model.yOf(model.hiddenOf(x).flip(0))));
  EXPECT_EQ(calls, 1);
}

TEST_F(SessionCaptureTest, StopsAndStarts) {
  auto session = open(model.writer);
  CaptureOptions options;
  options.points = {"hidden"};
  options.stopAfter = "hidden";
  CapturedRequest found = llvm::cantFail(session->capture({x}, options));
  EXPECT_TRUE(found.outputs.empty());
  ASSERT_EQ(found.values.size(), 1u);
  CaptureOptions from;
  from.replacements = {{"hidden", at::ones({5, 6})}};
  found = llvm::cantFail(session->capture({x}, from));
  EXPECT_TRUE(isClose(found.outputs[0], model.yOf(at::ones({5, 6}))));
}

TEST_F(SessionCaptureTest, FailsAndGoesOn) {
  auto session = open(model.writer);
  auto failureOf = [&](CaptureOptions options) {
    return llvm::toString(session->capture({x}, options).takeError());
  };
  CaptureOptions options;
  options.hooks = {{"hidden", [](const at::Tensor &, const HookContext &) -> at::Tensor {
                      throw std::runtime_error("no");
                    }}};
  EXPECT_THAT(failureOf(options), HasSubstr("hook of hidden: no"));
  options.hooks = {
      {"hidden", [](const at::Tensor &value, const HookContext &) { return value.to(at::kDouble); }}};
  EXPECT_THAT(failureOf(options), HasSubstr("hook of hidden: it returned"));
  options.hooks = {{"hidden", nullptr}};
  EXPECT_THAT(failureOf(options), HasSubstr("found no function"));
  CaptureOptions wrong;
  wrong.replacements = {{"hidden", at::ones({4, 6})}};
  EXPECT_THAT(failureOf(wrong), HasSubstr("capture point hidden: found float32[4, 6]"));
  wrong.replacements = {{"hidden", at::ones({5, 6})}, {"hidden", at::ones({5, 6})}};
  EXPECT_THAT(failureOf(wrong), HasSubstr("found two values"));
  CaptureOptions later;
  later.points = {"y"};
  later.stopAfter = "hidden";
  EXPECT_THAT(failureOf(later), HasSubstr("capture y: found a request that stops after hidden"));
  EXPECT_TRUE(isClose(llvm::cantFail(session->run({x}))[0], model.yOf(model.hiddenOf(x))));
}

TEST_F(SessionCaptureTest, RefusesEditsOfWhatIsReadElsewhere) {
  model.writer.plan->capture_points[0]->writable = false;
  auto session = open(model.writer);
  CaptureOptions options;
  options.points = {"hidden"};
  EXPECT_EQ(llvm::cantFail(session->capture({x}, options)).values.size(), 1u);
  options.replacements = {{"hidden", at::ones({5, 6})}};
  EXPECT_THAT(llvm::toString(session->capture({x}, options).takeError()),
              HasSubstr("compile with --capture-points 'hidden'"));
}

} // namespace cleave::runtime
