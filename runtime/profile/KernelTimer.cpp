//===- KernelTimer.cpp - Times operators on devices -----------------------===//
#include "runtime/profile/KernelTimer.h"
#include "runtime/base/Exceptions.h"
#include "runtime/device/DeviceWorker.h"
#include "runtime/exchange/LocalExchange.h"
#include "runtime/profile/TimedCalls.h"
#include <ATen/Functions.h>
#include <algorithm>
#include <barrier>
#include <latch>
#include <optional>
#include <thread>

namespace cleave::runtime {

/// Timeout of waits between ranks: longer than any call.
static constexpr std::chrono::seconds kTimeout{60};

namespace {
/// Timing group of threads of this process.
class LocalTimingGroup final : public TimingGroup {
public:
  explicit LocalTimingGroup(size_t ranks)
      : group(consecutiveRanks(0, ranks), /*spins=*/ranks <= std::thread::hardware_concurrency(),
              cancellation),
        start(std::ptrdiff_t(ranks)) {}

  Communicator &member(uint32_t rank) override { return group.member(rank); }
  std::optional<double> broadcastFromFirst(uint32_t rank, double seconds) override {
    if (rank == 0)
      estimate = seconds;
    start.arrive_and_wait();
    return hasFailed ? std::nullopt : std::optional(estimate.load());
  }
  void abandon() override {
    hasFailed = true;
    cancellation.cancel("a device has failed");
    start.arrive_and_drop();
  }

private:
  /// The timeout is of each wait.
  CancellationToken cancellation{{.timeout = kTimeout, .earliestBegin = CancellationToken::Clock::now}};
  LocalGroup group;
  std::barrier<> start;
  std::atomic<double> estimate{0};
  std::atomic<bool> hasFailed{false};
};

/// Timer over device threads of this process.
class DeviceTimer final : public KernelTimer {
public:
  DeviceTimer(double measurementSeconds, Clock clock, std::vector<std::unique_ptr<DeviceWorker>> workers)
      : measurementSeconds(measurementSeconds), clock(clock), workers(std::move(workers)) {}

  size_t devices() const override { return workers.size(); }
  int threads() const override { return workers.front()->threads(); }
  llvm::Expected<double> secondsOf(const Call &timed, const Call *before) override;
  std::vector<int64_t> messageBytes() const override { return {4, 4 << 20}; }
  llvm::Expected<double> secondsOfMessage(int64_t bytes, bool sends) override;

private:
  /// Runs `task(rank)` on `count` devices at the same time.
  llvm::Error onDevices(size_t count, const std::function<void(uint32_t rank)> &task);

  const double measurementSeconds;
  const Clock clock;
  const std::vector<std::unique_ptr<DeviceWorker>> workers;
};
} // namespace

/// By call: mean over devices.
static std::vector<double> meanOf(const std::vector<std::vector<double>> &samples) {
  std::vector<double> all(samples.front().size());
  for (const std::vector<double> &each : samples)
    for (size_t call = 0; call < all.size(); ++call)
      all[call] += each[call] / double(samples.size());
  return all;
}

double KernelTimer::seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

llvm::Expected<std::unique_ptr<KernelTimer>> KernelTimer::open(llvm::ArrayRef<std::string> names,
                                                               double measurementSeconds, Clock clock) {
  std::vector<ResolvedDevice> resolved;
  for (const std::string &name : names) {
    auto device = resolveTimedDevice(name);
    if (!device)
      return device.takeError();
    resolved.push_back(std::move(*device));
  }
  return std::make_unique<DeviceTimer>(measurementSeconds, clock, startWorkers(resolved));
}

llvm::Error DeviceTimer::onDevices(size_t count, const std::function<void(uint32_t rank)> &task) {
  std::latch done{std::ptrdiff_t(count)};
  std::vector<std::string> failures(count);
  for (uint32_t rank = 0; rank < count; ++rank)
    workers[rank]->post([&, rank] {
      try {
        task(rank);
      } catch (const std::exception &exception) {
        failures[rank] = messageOf(exception);
      }
      done.count_down();
    });
  done.wait();
  for (uint32_t rank = 0; rank < count; ++rank)
    if (!failures[rank].empty())
      return llvm::createStringError("device " + workers[rank]->name() + ": " + failures[rank]);
  return llvm::Error::success();
}

llvm::Expected<double> DeviceTimer::secondsOf(const Call &timed, const Call *before) {
  auto calls = TimedCalls::of(timed, before, measurementSeconds, clock);
  if (!calls)
    return calls.takeError();
  LocalTimingGroup group(devices());
  std::vector<std::vector<double>> samples(devices());
  if (llvm::Error error =
          onDevices(devices(), [&](uint32_t rank) { samples[rank] = calls->sample(rank, group); }))
    return llvm::createStringError(timed.name + ": " + toString(std::move(error)));
  return calls->summarize(meanOf(samples));
}

llvm::Expected<double> DeviceTimer::secondsOfMessage(int64_t bytes, bool sends) {
  constexpr size_t kHops = 200;
  const size_t count = sends ? 2 : 1;
  // Sends values as from stage to stage of a request.
  /// The timeout is of each wait.
  CancellationToken cancellation{{.timeout = kTimeout, .earliestBegin = CancellationToken::Clock::now}};
  LocalExchange exchange(/*ranks=*/2, {}, /*transfers=*/kHops, /*microbatches=*/1, cancellation);
  double seconds = 0;
  auto hop = [&](uint32_t rank) {
    std::vector<c10::IValue> values;
    at::Tensor tensor = at::zeros({std::max<int64_t>(1, bytes / 4)});
    const double begin = clock();
    for (size_t hop = 0; hop < kHops; ++hop) {
      if (sends && hop % 2 != rank) {
        TORCH_CHECK(exchange.receive({hop, 0, 1 - rank}, workers[rank]->memory(), values), "no transfer");
        tensor = values.front().toTensor();
        continue;
      }
      tensor = at::add(tensor, 1);
      values.assign(1, tensor);
      tensor = sends ? at::Tensor() : tensor;
      if (sends)
        TORCH_CHECK(exchange.send({hop, 0, 1 - rank}, values), "no transfer");
    }
    if (rank == 0)
      seconds = (clock() - begin) / double(kHops);
  };
  if (llvm::Error error = onDevices(count, hop))
    return error;
  return seconds;
}

} // namespace cleave::runtime
