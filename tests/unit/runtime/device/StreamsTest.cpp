//===- StreamsTest.cpp - Order between threads that use GPUs --------------===//
// Runs without a GPU: fake devices log the calls on their streams.
#include "runtime/device/Streams.h"
#include "runtime/device/DeviceWorker.h"
#include "runtime/exchange/LocalExchange.h"
#include "runtime/schedule/Request.h"
#include "tests/unit/runtime/FakeGpu.h"
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <future>
#include <gmock/gmock.h>
#include <thread>

namespace cleave::runtime {

using at::Tensor;
using testing::ElementsAre;
using testing::IsSupersetOf;

class StreamsTest : public testing::Test {
protected:
  StreamsTest() { takeFakeGpuLog(); }

  static std::string name(const c10::Stream &stream) {
    return std::to_string(stream.device_index()) + "/" + std::to_string(stream.id());
  }
  /// Does `work` on the device's thread.
  static void on(DeviceWorker &device, std::function<void()> work) {
    std::promise<void> done;
    device.post([&] {
      work();
      done.set_value();
    });
    done.get_future().get();
  }
};

TEST_F(StreamsTest, ReceiversWaitOnTheGpuForWhatSendersMake) {
  CancellationToken cancellation({});
  LocalExchange exchange(/*ranks=*/2, {}, /*transfers=*/1, /*microbatches=*/1, cancellation);
  const c10::Stream sending = newStream(fakeGpu(0)), receiving = newStream(fakeGpu(0));
  const Tensor tensor = at::ones({2}).to(fakeGpu(0));
  std::thread sender([&] {
    c10::StreamGuard guard(sending);
    // One event per device; tensors in lists count.
    std::vector<c10::IValue> values = {tensor, c10::List<Tensor>({tensor}), at::ones({1}), 3};
    EXPECT_TRUE(exchange.send({0, 0, 1}, values));
  });
  c10::StreamGuard guard(receiving);
  const MemoryAccountRef account(new MemoryAccount("receiver"));
  std::vector<c10::IValue> values;
  EXPECT_TRUE(exchange.receive({0, 0, 0}, *account, values));
  sender.join();
  EXPECT_TRUE(values[0].toTensor().is_same(tensor));
  EXPECT_THAT(takeFakeGpuLog(),
              ElementsAre(name(sending) + " records", name(receiving) + " waits for " + name(sending),
                          name(receiving) + " keeps", name(receiving) + " keeps"));
}

TEST_F(StreamsTest, RanksOnOneGpuHaveStreamsOfTheirOwn) {
  DeviceWorker one({"one", fakeGpu(1)}, 1), other({"other", fakeGpu(1)}, 1);
  std::vector<c10::StreamId> found;
  for (DeviceWorker *device : {&one, &other})
    on(*device, [&] {
      synchronize(fakeGpu(1));
      found.push_back(c10::impl::VirtualGuardImpl(c10::kPrivateUse1).getStream(fakeGpu(1)).id());
    });
  EXPECT_NE(found[0], found[1]);
  EXPECT_THAT(takeFakeGpuLog(), ElementsAre("1/" + std::to_string(found[0]) + " finishes",
                                            "1/" + std::to_string(found[1]) + " finishes"));
}

TEST_F(StreamsTest, DevicesGiveTheirStreamsBack) {
  FakePlugin plugin;
  c10::StreamId computing = 0;
  {
    DeviceWorker device({"cuda:1", fakeGpu(1), &plugin}, 1);
    on(device,
       [&] { computing = c10::impl::VirtualGuardImpl(c10::kPrivateUse1).getStream(fakeGpu(1)).id(); });
    EXPECT_EQ(plugin.given.size(), 0u);
  }
  ASSERT_EQ(plugin.given.size(), 2u);
  EXPECT_EQ(plugin.given[0].id(), computing);
  EXPECT_NE(plugin.given[1].id(), computing);
}

/// Two micro-batches, each of a rank with its own stream, join their outputs on a GPU.
TEST_F(StreamsTest, MicrobatchesWaitForTheRoomOfOutputs) {
  TwoLayers model;
  model.writer.splitBatch(2);
  const plan::Signature &signature = *model.writer.plan->signatures[0];
  StateStore states(*model.writer.plan);
  auto admissions = std::make_shared<AdmissionController>(std::chrono::seconds(30), 1);
  auto connect = [](CancellationToken &cancellation) {
    static const std::map<uint32_t, std::vector<uint32_t>> groups;
    return std::make_shared<LocalExchange>(2, groups, 1, 2, cancellation);
  };
  Request request(0, {}, Microbatches(signature, 2, {4}), 1, {0, 1}, admissions, admissions->enter(),
                  RequestStates(states, 0, 0), connect, fakeGpu(0));
  const c10::Stream streams[] = {newStream(fakeGpu(0)), newStream(fakeGpu(0))};
  const Tensor part = at::ones({2, 4}).to(fakeGpu(0));
  takeFakeGpuLog();
  for (uint32_t microbatch : {0, 1}) {
    c10::StreamGuard guard(streams[microbatch]);
    request.addOutput(0, microbatch, part);
  }
  const std::string first = name(streams[0]), second = name(streams[1]);
  EXPECT_THAT(takeFakeGpuLog(),
              ElementsAre("0/0 keeps", first + " records", first + " waits for " + first, first + " keeps",
                          second + " waits for " + first, second + " keeps"));
}

TEST_F(StreamsTest, CopiesGoBesideWhatAGpuComputes) {
  DeviceWorker device({"receiver", fakeGpu(1)}, 1);
  std::string computing;
  std::vector<c10::IValue> values = {at::full({3}, 7.f).to(fakeGpu(0))};
  on(device, [&] {
    computing = name(c10::impl::VirtualGuardImpl(c10::kPrivateUse1).getStream(fakeGpu(1)));
    device.toDevice(values);
  });
  EXPECT_EQ(values[0].toTensor().device(), fakeGpu(1));
  EXPECT_TRUE(at::equal(values[0].toTensor().cpu(), at::full({3}, 7.f)));
  const std::vector<std::string> log = takeFakeGpuLog();
  ASSERT_EQ(log.size(), 4u);
  // The default stream of the sender's device, where no rank computes, and a stream of the receiver.
  const std::string arriving = log[1].substr(0, log[1].find(' '));
  EXPECT_NE(arriving, computing);
  EXPECT_THAT(log, ElementsAre("0/0 copies to " + arriving, arriving + " records",
                               computing + " waits for " + arriving, computing + " keeps"));
}

TEST_F(StreamsTest, CpusTakeCopies) {
  DeviceWorker device({"cpu:0"}, 1);
  std::vector<c10::IValue> values = {at::full({3}, 7.f).to(fakeGpu(0)), 5};
  on(device, [&] { device.toDevice(values); });
  EXPECT_TRUE(at::equal(values[0].toTensor(), at::full({3}, 7.f)));
  EXPECT_THAT(takeFakeGpuLog(), ElementsAre());
}

/// Runs `work` on each of two GPUs with its communicator, on stream `streams[rank]`.
static std::vector<Tensor> onGroup(const std::vector<c10::Stream> &streams,
                                   const std::function<Tensor(Communicator &, int64_t)> &work) {
  CancellationToken cancellation({});
  LocalGroup group({0, 1}, /*spins=*/false, cancellation);
  std::vector<Tensor> results(2);
  std::vector<std::thread> ranks;
  for (int64_t rank : {0, 1})
    ranks.emplace_back([&, rank] {
      c10::StreamGuard guard(streams[rank]);
      results[rank] = work(group.member(rank), rank);
    });
  for (std::thread &rank : ranks)
    rank.join();
  for (int64_t rank : {0, 1}) {
    EXPECT_EQ(results[rank].device(), fakeGpu(rank));
    EXPECT_TRUE(results[rank].is_contiguous());
    results[rank] = results[rank].cpu();
  }
  return results;
}

TEST_F(StreamsTest, GroupsOfGpusTakeCopiesInTheOrderOfTheirStreams) {
  const std::vector<c10::Stream> streams = {newStream(fakeGpu(0)), newStream(fakeGpu(1))};
  const Tensor x[] = {at::randn({4, 6}), at::randn({4, 6})};
  auto results = onGroup(
      streams, [&](Communicator &group, int64_t rank) { return group.allReduce(x[rank].to(fakeGpu(rank))); });
  for (const Tensor &result : results)
    EXPECT_TRUE(at::equal(result, x[0] + x[1]));
  const std::vector<std::string> log = takeFakeGpuLog();
  EXPECT_THAT(log,
              IsSupersetOf(std::vector<std::string>{
                  name(streams[0]) + " records", name(streams[1]) + " records",
                  // The other GPU's tensor is copied on its default stream, after it is ready.
                  "1/0 waits for " + name(streams[1]), "1/0 keeps", "1/0 copies to " + name(streams[0]),
                  "0/0 waits for " + name(streams[0]), "0/0 keeps", "0/0 copies to " + name(streams[1])}));
  auto at = [&](const std::string &line) { return std::find(log.begin(), log.end(), line) - log.begin(); };
  EXPECT_LT(at(name(streams[1]) + " records"), at("1/0 waits for " + name(streams[1])));
  EXPECT_LT(at("1/0 waits for " + name(streams[1])), at("1/0 copies to " + name(streams[0])));
}

TEST_F(StreamsTest, GroupsOfGpusExchangeInEveryWay) {
  const std::vector<c10::Stream> streams = {newStream(fakeGpu(0)), newStream(fakeGpu(1))};
  const Tensor whole = at::arange(24, at::kInt).view({4, 6});
  auto rows = [&](int64_t rank) { return whole.narrow(0, 2 * rank, 2).to(fakeGpu(rank)); };
  for (const Tensor &gathered : onGroup(streams, [&](Communicator &group, int64_t rank) {
         return group.allGather(rows(rank), 0, {0, 0, 2, 1, 0, 2});
       }))
    EXPECT_TRUE(at::equal(gathered, whole));
  auto columns = onGroup(streams, [&](Communicator &group, int64_t rank) {
    return group.allToAll(rows(rank), 0, {0, 0, 2, 1, 0, 2}, 1, {3 * rank, 3});
  });
  auto sums = onGroup(streams, [&](Communicator &group, int64_t rank) {
    return group.reduceScatter(whole.to(fakeGpu(rank)), 1, {3 * rank, 3});
  });
  for (int64_t rank : {0, 1}) {
    EXPECT_TRUE(at::equal(columns[rank], whole.narrow(1, 3 * rank, 3)));
    EXPECT_TRUE(at::equal(sums[rank], whole.narrow(1, 3 * rank, 3) * 2));
  }
  for (const Tensor &given :
       onGroup(streams, [&](Communicator &group, int64_t rank) { return group.broadcast(rows(rank), 1); }))
    EXPECT_TRUE(at::equal(given, whole.narrow(0, 2, 2)));
}

} // namespace cleave::runtime
