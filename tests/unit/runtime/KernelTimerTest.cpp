//===- KernelTimerTest.cpp - Which calls are timed ------------------------===//
#include "runtime/KernelTimer.h"
#include <ATen/ATen.h>
#include <algorithm>
#include <gmock/gmock.h>
#include <thread>
#include <torch/library.h>

namespace cleave::runtime {

/// Calls of the operators below, in order, of the one device there is.
static std::string made;
static constexpr std::chrono::milliseconds kLong{200};

static at::Tensor remember(char call, const at::Tensor &x) {
  made += call;
  return x.clone();
}

TORCH_LIBRARY_FRAGMENT(timerTest, library) {
  library.def("timed(Tensor x) -> Tensor", [](const at::Tensor &x) { return remember('t', x); });
  library.def("before(Tensor x) -> Tensor", [](const at::Tensor &x) { return remember('b', x); });
  library.def("long(Tensor x) -> Tensor", [](const at::Tensor &x) {
    std::this_thread::sleep_for(kLong);
    return remember('l', x);
  });
  // By any device, so that neither is remembered.
  library.def("quiet(Tensor x) -> Tensor", [](const at::Tensor &x) { return x.clone(); });
  library.def("lasting(Tensor x, float seconds) -> Tensor", [](const at::Tensor &x, double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return x.clone();
  });
  // The first call after that to warm up and the one for an estimate.
  library.def("stalled(Tensor x) -> Tensor", [](const at::Tensor &x) {
    if (std::ranges::count(made, 's') == 2)
      std::this_thread::sleep_for(kLong);
    return remember('s', x);
  });
}

namespace {
class KernelTimerTest : public testing::Test {
protected:
  KernelTimerTest() { made.clear(); }

  static KernelTimer::Call call(const char *name) {
    return {name, [](uint32_t) { return std::vector<torch::jit::Stack>{{at::ones({1})}}; }};
  }
  /// As few calls as there can be.
  std::unique_ptr<KernelTimer> timer = llvm::cantFail(KernelTimer::open({"cpu:0"}, {/*seconds=*/0}));
};
} // namespace

TEST_F(KernelTimerTest, MakesOneCallBeforeEachThatItTimes) {
  const KernelTimer::Call before = call("timerTest::before");
  EXPECT_GT(llvm::cantFail(timer->secondsOf(call("timerTest::timed"), &before)), 0);
  // To warm up, for an estimate, and timed.
  EXPECT_EQ(made, "btbtbt");
}

TEST_F(KernelTimerTest, MakesNoOtherCallsUnlessAsked) {
  EXPECT_GT(llvm::cantFail(timer->secondsOf(call("timerTest::timed"))), 0);
  EXPECT_GE(made.size(), 3u);
  EXPECT_EQ(made, std::string(made.size(), 't'));
}

TEST_F(KernelTimerTest, LeavesOutTheTimeOfTheCallBefore) {
  const KernelTimer::Call before = call("timerTest::long");
  EXPECT_LT(llvm::cantFail(timer->secondsOf(call("timerTest::timed"), &before)),
            std::chrono::duration<double>(kLong).count() / 2);
  EXPECT_EQ(made, "ltltlt");
}

/// Of a thousand calls at most, a mean would have a thousandth of it at least.
TEST_F(KernelTimerTest, IsNotMovedByOneLongCallThatFollowsOthers) {
  timer = llvm::cantFail(KernelTimer::open({"cpu:0"}, {/*seconds=*/0.1}));
  const KernelTimer::Call before = call("timerTest::before");
  EXPECT_LT(llvm::cantFail(timer->secondsOf(call("timerTest::stalled"), &before)),
            std::chrono::duration<double>(kLong).count() / 1000);
  EXPECT_GT(std::ranges::count(made, 's'), 5);
}

/// Half of the calls are long, of each pair of calls at the same time one: neither is what is typical of
/// both.
TEST_F(KernelTimerTest, TakesTheMeanOverDevices) {
  timer = llvm::cantFail(KernelTimer::open({"cpu:0", "cpu:1"}, {/*seconds=*/0}));
  const KernelTimer::Call uneven = {"timerTest::lasting", [](uint32_t rank) {
                                      return std::vector<torch::jit::Stack>{{at::zeros({1}), rank * 0.2}};
                                    }};
  const KernelTimer::Call before = call("timerTest::quiet");
  EXPECT_NEAR(llvm::cantFail(timer->secondsOf(uneven, &before)), 0.1, 0.05);
}

} // namespace cleave::runtime
