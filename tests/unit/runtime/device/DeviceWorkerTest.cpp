//===- DeviceWorkerTest.cpp - The threads of devices ----------------------===//
#include "runtime/device/DeviceWorker.h"
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <future>
#include <gmock/gmock.h>

namespace cleave::runtime {

/// What `ask` says on the thread of `device`.
template <typename T> static T on(DeviceWorker &device, T (*ask)()) {
  std::promise<T> answer;
  device.post([&] { answer.set_value(ask()); });
  return answer.get_future().get();
}

/// The threads that operators use, once there has been one.
static int width() {
  at::mm(at::ones({200, 200}), at::ones({200, 200}));
  return at::get_num_threads();
}

/// The widths of `count` CPU devices where this thread has `threads`.
static std::vector<int> widths(int threads, size_t count) {
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  std::vector<ResolvedDevice> resolved;
  for (size_t i = 0; i < count; ++i)
    resolved.push_back({"cpu:" + std::to_string(i)});
  std::vector<int> found;
  for (const auto &device : startWorkers(resolved))
    found.push_back(on(*device, width));
  EXPECT_EQ(width(), threads);
  at::set_num_threads(before);
  return found;
}

TEST(DeviceWorkerTest, OneDeviceHasAllThreads) { EXPECT_THAT(widths(6, 1), testing::Each(6)); }

TEST(DeviceWorkerTest, DevicesShareTheThreads) {
  EXPECT_THAT(widths(6, 2), testing::Each(3));
  EXPECT_THAT(widths(6, 4), testing::Each(1));
}

TEST(DeviceWorkerTest, EachDeviceHasAThreadOfItsOwn) { EXPECT_THAT(widths(2, 5), testing::Each(1)); }

TEST(DeviceWorkerTest, WorksInInferenceMode) {
  auto devices = startWorkers(ResolvedDevice{"cpu:0"});
  EXPECT_TRUE(on(*devices[0], c10::InferenceMode::is_enabled));
  EXPECT_FALSE(c10::InferenceMode::is_enabled());
}

} // namespace cleave::runtime
