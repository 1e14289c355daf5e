//===- DeviceProcessGroupTest.cpp - What goes between the devices of processes ---===//
#include "runtime/comm/process/DeviceProcessGroup.h"
#include "tests/unit/runtime/FakeNccl.h"
#include <ATen/ATen.h>
#include <future>
#include <gmock/gmock.h>
#include <thread>

namespace cleave::runtime {

using at::Tensor;

TEST(FlatBufferTest, BringsTensorsBackFromABuffer) {
  // A part with a dtype of one byte first, so that the next part is misaligned.
  const std::vector<Tensor> parts = {at::ones({3}, at::kBool), at::arange(6, at::kFloat).view({2, 3}).t(),
                                     at::empty({0, 4}), at::scalar_tensor(7, at::kLong),
                                     at::arange(5, at::kBFloat16)};
  const FlattenedTensors flat = flatten(parts, c10::kCPU);
  EXPECT_EQ(flat.counts, (std::vector<int64_t>{3, 24, 0, 8, 10}));
  EXPECT_EQ(flat.bytes.numel(), 45);
  std::vector<Tensor> filled;
  for (const Tensor &part : parts)
    filled.push_back(at::zeros_like(part));
  EXPECT_EQ(filled[1].strides(), (at::IntArrayRef{1, 3})); // which is not the row's order
  unflatten(flat.bytes, filled);
  for (size_t i = 0; i < parts.size(); ++i)
    EXPECT_TRUE(at::equal(filled[i], parts[i])) << i;
}

TEST(FlatBufferTest, RefusesABufferOfAnotherSize) {
  EXPECT_THROW(unflatten(at::zeros({9}, at::kByte), {at::zeros({2})}), c10::Error);
}

TEST(DeviceProcessGroupTest, SwapsUnevenParts) {
  constexpr uint32_t size = 3;
  FakeNcclGroup backends(size);
  // What member `from` sends to `to`: sizes differ for each pair, and some are empty.
  auto part = [](uint32_t from, uint32_t to) {
    return at::full({2, int64_t((from * 5 + to) % 4)}, double(10 * from + to));
  };
  std::vector<std::thread> threads;
  for (uint32_t index = 0; index < size; ++index)
    threads.emplace_back([&, index] {
      DeviceProcessGroup group(backends.member(index));
      std::vector<Tensor> given, taken;
      for (uint32_t other = 0; other < size; ++other) {
        given.push_back(other == index ? at::empty({0}) : part(index, other));
        taken.push_back(at::zeros_like(other == index ? given.back() : part(other, index)));
      }
      group.allToAll(given, taken, c10::kCPU);
      for (uint32_t other = 0; other < size; ++other)
        if (other != index) {
          EXPECT_TRUE(at::equal(taken[other], part(other, index))) << other << " to " << index;
        }
      EXPECT_TRUE(at::equal(group.allReduce(at::full({5}, double(index))), at::full({5}, 3.0)));
      EXPECT_TRUE(at::equal(group.broadcast(at::full({2, 2}, double(index)).t(), 2), at::full({2, 2}, 2.0)));
    });
  for (std::thread &thread : threads)
    thread.join();
}

namespace {
/// Work that completes only when it is aborted, as if another process had gone.
class StuckWork final : public c10d::Work {
public:
  bool isCompleted() override { return isOver; }
  void fail(const std::string &why) {
    exception_ = std::make_exception_ptr(std::runtime_error(why));
    isOver = true;
  }
  std::atomic<bool> isOver{false};
};

class StuckBackend final : public c10d::Backend {
public:
  StuckBackend() : Backend(0, 2) {}
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<Tensor> &, const c10d::AllreduceOptions &) override {
    started = true;
    return work;
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<Tensor> &, int, int) override { return work; }
  void abort() override {
    ++aborts;
    if (mayAbort.valid())
      mayAbort.wait();
    work->isOver = true;
  }
  /// The abort blocks until this is set, if valid.
  std::shared_future<void> mayAbort;
  const c10::intrusive_ptr<StuckWork> work = c10::make_intrusive<StuckWork>();
  std::atomic<bool> started{false};
  std::atomic<int> aborts{0};
};
} // namespace

/// Aborts `group` twice while another thread waits for `backend`.
static void abortWaiting(DeviceProcessGroup &group, const StuckBackend &backend) {
  std::thread waiting([&] { EXPECT_THROW(group.allReduce(at::ones({3})), TransportClosed); });
  while (!backend.started)
    std::this_thread::yield();
  group.abort();
  group.abort();
  waiting.join();
}

TEST(DeviceProcessGroupTest, EndsWhenItIsAborted) {
  auto backend = c10::make_intrusive<StuckBackend>();
  DeviceProcessGroup group(backend);
  abortWaiting(group, *backend);
  EXPECT_EQ(backend->aborts, 1);
  EXPECT_THROW(group.allReduce(at::ones({3})), TransportClosed);
}

TEST(DeviceProcessGroupTest, LeavesBehindWhatCannotBeAborted) {
  auto backend = c10::make_intrusive<StuckBackend>();
  std::promise<void> end;
  backend->mayAbort = end.get_future().share();
  const auto begin = std::chrono::steady_clock::now();
  {
    DeviceProcessGroup group(backend);
    abortWaiting(group, *backend);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_FALSE(backend->work->isOver);
  end.set_value();
  while (!backend->work->isOver)
    std::this_thread::yield();
}

TEST(DeviceProcessGroupTest, KeepsWhatMayStillBeWritten) {
  auto backend = c10::make_intrusive<StuckBackend>();
  std::promise<void> end;
  backend->mayAbort = end.get_future().share();
  {
    DeviceProcessGroup group(backend);
    std::unique_ptr<PendingMessage> unread = group.receive(1, at::ones({3}));
    (void)group.receive(1, at::ones({3}));
    group.abort();
  }
  // c10d releases the tensors with its work.
  EXPECT_EQ(backend->work.use_count(), 3u)
      << "of one that was given up before the run was over, and one after";
  end.set_value();
  while (!backend->work->isOver)
    std::this_thread::yield();
}

TEST(DeviceProcessGroupTest, PrefersTheRunsFailureToItsOwn) {
  auto backend = c10::make_intrusive<StuckBackend>();
  DeviceProcessGroup group(backend);
  backend->work->fail("remote process exited");
  std::thread noticing([&] {
    while (!backend->started)
      std::this_thread::yield();
    group.abort();
  });
  EXPECT_THROW(group.allReduce(at::ones({3})), TransportClosed);
  noticing.join();
}

TEST(DeviceProcessGroupTest, TellsOfItsOwnFailureWhereTheRunGoesOn) {
  auto backend = c10::make_intrusive<StuckBackend>();
  DeviceProcessGroup group(backend);
  backend->work->fail("invalid usage");
  EXPECT_THAT([&] { group.allReduce(at::ones({3})); },
              testing::ThrowsMessage<std::runtime_error>("invalid usage"));
}

} // namespace cleave::runtime
