//===- KernelTimerTest.cpp - Which calls are timed ------------------------===//
#include "runtime/profile/KernelTimer.h"
#include <ATen/ATen.h>
#include <algorithm>
#include <gmock/gmock.h>
#include <torch/library.h>

namespace cleave::runtime {

/// Calls of the operators below, in order, of the one device there is.
static std::string made;
/// A device's time: only calls take of it.
static thread_local double now = 0;
/// Seconds whose sums are exact.
static constexpr double kShort = 1.0 / 1024, kLong = 0.25;

static at::Tensor remember(char call, const at::Tensor &x, double seconds) {
  made += call;
  now += seconds;
  return x.clone();
}

TORCH_LIBRARY_FRAGMENT(timerTest, library) {
  library.def("timed(Tensor x) -> Tensor", [](const at::Tensor &x) { return remember('t', x, kShort); });
  library.def("before(Tensor x) -> Tensor", [](const at::Tensor &x) { return remember('b', x, kLong); });
  // The first call after that to warm up and the one for an estimate.
  library.def("stalled(Tensor x) -> Tensor", [](const at::Tensor &x) {
    return remember('s', x, std::ranges::count(made, 's') == 2 ? kLong : kShort);
  });
  // By any device, so that neither is remembered.
  library.def("quiet(Tensor x) -> Tensor", [](const at::Tensor &x) { return x.clone(); });
  library.def("lasting(Tensor x, float seconds) -> Tensor", [](const at::Tensor &x, double seconds) {
    now += seconds;
    return x.clone();
  });
}

namespace {
class KernelTimerTest : public testing::Test {
protected:
  KernelTimerTest() { made.clear(); }

  static KernelTimer::Call call(const char *name) {
    return {name, [](uint32_t) { return std::vector<torch::jit::Stack>{{at::ones({1})}}; }};
  }
  static std::unique_ptr<KernelTimer> open(llvm::ArrayRef<std::string> devices, double seconds) {
    return llvm::cantFail(KernelTimer::open(devices, seconds, [] { return now; }));
  }
  /// As few calls as there can be.
  std::unique_ptr<KernelTimer> timer = open({"cpu:0"}, 0);
};
} // namespace

TEST_F(KernelTimerTest, MakesOneCallBeforeEachThatItTimes) {
  const KernelTimer::Call before = call("timerTest::before");
  EXPECT_DOUBLE_EQ(llvm::cantFail(timer->secondsOf(call("timerTest::timed"), &before)), kShort);
  // To warm up, for an estimate, and timed.
  EXPECT_EQ(made, "btbtbt");
}

TEST_F(KernelTimerTest, MakesNoOtherCallsUnlessAsked) {
  EXPECT_DOUBLE_EQ(llvm::cantFail(timer->secondsOf(call("timerTest::timed"))), kShort);
  EXPECT_EQ(made, "ttt");
}

/// As many as the time allows, which the call before is a part of.
TEST_F(KernelTimerTest, IsNotMovedByOneLongCallThatFollowsOthers) {
  timer = open({"cpu:0"}, 10 * (kLong + kShort));
  const KernelTimer::Call before = call("timerTest::before");
  EXPECT_DOUBLE_EQ(llvm::cantFail(timer->secondsOf(call("timerTest::stalled"), &before)), kShort);
  EXPECT_EQ(std::ranges::count(made, 's'), 2 + 10);
}

/// Half of the calls are long, of each pair of calls at the same time one: neither is what is typical of
/// both.
TEST_F(KernelTimerTest, TakesTheMeanOverDevices) {
  timer = open({"cpu:0", "cpu:1"}, 0);
  const KernelTimer::Call uneven = {"timerTest::lasting", [](uint32_t rank) {
                                      return std::vector<torch::jit::Stack>{{at::zeros({1}), rank * kLong}};
                                    }};
  const KernelTimer::Call before = call("timerTest::quiet");
  EXPECT_DOUBLE_EQ(llvm::cantFail(timer->secondsOf(uneven, &before)), kLong / 2);
}

TEST_F(KernelTimerTest, GoesByTheSystemsClockUnlessToldOtherwise) {
  timer = llvm::cantFail(KernelTimer::open({"cpu:0"}, /*measurementSeconds=*/0));
  const KernelTimer::Call call = {
      "aten::mm",
      [](uint32_t) { return std::vector<torch::jit::Stack>{{at::ones({256, 256}), at::ones({256, 256})}}; }};
  EXPECT_GT(llvm::cantFail(timer->secondsOf(call)), 0);
}

} // namespace cleave::runtime
