//===- KernelTimer.cpp - How long devices take for operators --------------===//
#include "runtime/KernelTimer.h"
#include "runtime/Device.h"
#include "runtime/Exceptions.h"
#include "runtime/LocalExchange.h"
#include "runtime/Operators.h"
#include <ATen/Functions.h>
#include <algorithm>
#include <barrier>
#include <latch>
#include <numeric>
#include <optional>
#include <thread>

namespace cleave::runtime {

/// Ranks wait for each other for as long as any call may take.
static constexpr std::chrono::seconds kTimeout{60};

namespace {
/// Of the group: a rank that fails ends the others' waits.
class Failure final : public Patience {
public:
  bool isOver() const override { return failed; }
  std::chrono::steady_clock::time_point deadline() override {
    return std::chrono::steady_clock::now() + kTimeout;
  }
  void expire() override { failed = true; }

private:
  std::atomic<bool> failed{false};
};

/// The calls of one measurement, of which all devices make equally many.
class Calls {
public:
  /// A call that is timed, and perhaps one before each that is not.
  struct Call {
    torch::jit::Operation operation;
    KernelTimer::Operands operands;
  };
  Calls(const Call &timed, std::optional<Call> before, double budget, KernelTimer::Clock clock, size_t ranks)
      : timed(timed), before(std::move(before)), budget(budget), clock(clock),
        group(0, uint32_t(ranks), /*spins=*/ranks <= std::thread::hardware_concurrency(), patience),
        start(std::ptrdiff_t(ranks)), samples(ranks) {}

  void run(uint32_t rank);
  /// Of a call, the mean over devices; of all calls the mean, or the median of those that are timed one by
  /// one. Of these one in which the system runs something else on a core, while other ranks wait, would take
  /// more than all others.
  double typical() const;

private:
  const Call timed;
  const std::optional<Call> before;
  const double budget;
  const KernelTimer::Clock clock;
  Failure patience;
  LocalGroup group;
  std::barrier<> start;
  /// Of a call, as the first device finds.
  std::atomic<double> estimate{0};
  std::atomic<bool> hasFailed{false};
  std::vector<std::vector<double>> samples;
};

/// A device's own calls, each with the next operands.
class Turns {
public:
  Turns(const Calls::Call &call, uint32_t rank) : operation(call.operation), variants(call.operands(rank)) {}

  void call(int64_t count = 1) {
    for (int64_t i = 0; i < count; ++i) {
      stack = variants[next];
      next = (next + 1) % variants.size();
      operation(stack);
      stack.clear();
    }
  }

private:
  torch::jit::Operation operation;
  const std::vector<torch::jit::Stack> variants;
  size_t next = 0;
  torch::jit::Stack stack;
};

/// On devices of its own.
class DeviceTimer final : public KernelTimer {
public:
  DeviceTimer(Effort effort, Clock clock, std::vector<std::unique_ptr<Device>> workers)
      : effort(effort), clock(clock), workers(std::move(workers)) {}

  size_t devices() const override { return workers.size(); }
  int threads() const override { return workers.front()->threads(); }
  llvm::Expected<double> secondsOf(const Call &timed, const Call *before) override;
  llvm::Expected<double> secondsOfHandover(int64_t bytes, bool handsOver) override;

private:
  /// Does `task(rank)` on so many devices at the same time.
  llvm::Error onDevices(size_t count, const std::function<void(uint32_t rank)> &task);

  const Effort effort;
  const Clock clock;
  const std::vector<std::unique_ptr<Device>> workers;
};
} // namespace

void Calls::run(uint32_t rank) {
  // Time is read once in so many seconds.
  constexpr double kSample = 100e-6;
  constexpr int64_t kMost = 1000;
  CommunicatorScope scope(&group.member(rank));
  std::optional<Turns> own, preceding;
  auto sample = [&](int64_t count) {
    if (preceding)
      preceding->call();
    const double begin = clock();
    own->call(count);
    return clock() - begin;
  };
  try {
    own.emplace(timed, rank);
    if (before)
      preceding.emplace(*before, rank);
    // What is made once is made by the first call; the second says how long others take.
    sample(1);
    const double begin = clock();
    sample(1);
    if (rank == 0)
      estimate = clock() - begin;
  } catch (...) {
    hasFailed = true;
    patience.expire();
    group.wake();
    start.arrive_and_drop();
    throw;
  }
  start.arrive_and_wait();
  if (hasFailed)
    return;
  const int64_t calls = before ? 1 : std::clamp<int64_t>(kSample / std::max(estimate.load(), 1e-8), 1, kMost);
  const int64_t count = std::clamp<int64_t>(budget / std::max(estimate * double(calls), 1e-8), 1, kMost);
  for (int64_t i = 0; i < count; ++i)
    samples[rank].push_back(sample(calls) / double(calls));
}

double Calls::typical() const {
  std::vector<double> all(samples.front().size());
  for (const std::vector<double> &each : samples)
    for (size_t call = 0; call < all.size(); ++call)
      all[call] += each[call] / double(samples.size());
  if (!before)
    return std::accumulate(all.begin(), all.end(), 0.0) / double(all.size());
  const auto middle = all.begin() + all.size() / 2;
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

double KernelTimer::seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

llvm::Expected<std::unique_ptr<KernelTimer>> KernelTimer::open(llvm::ArrayRef<std::string> names,
                                                               Effort effort, Clock clock) {
  std::vector<ResolvedDevice> resolved;
  for (const std::string &name : names) {
    auto device = resolveDevice(name);
    if (!device)
      return device.takeError();
    if (device->plugin)
      return llvm::createStringError("device " + name + ": this version measures CPUs only; use cpu:N");
    resolved.push_back(std::move(*device));
  }
  return std::make_unique<DeviceTimer>(effort, clock, startDevices(resolved));
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
  plan::Plan plan;
  plan.operators = {timed.name};
  if (before)
    plan.operators.push_back(before->name);
  Operators operators(plan);
  auto resolve = [&](uint32_t index, const Call &call) -> llvm::Expected<Calls::Call> {
    auto found = operators.resolve(index);
    if (!found)
      return found.takeError();
    return Calls::Call{(*found)->onCpu, call.operands};
  };
  auto own = resolve(0, timed);
  if (!own)
    return own.takeError();
  std::optional<Calls::Call> preceding;
  if (before)
    if (llvm::Error error = resolve(1, *before).moveInto(preceding))
      return error;
  Calls calls(*own, std::move(preceding), effort.seconds, clock, devices());
  if (llvm::Error error = onDevices(devices(), [&](uint32_t rank) { calls.run(rank); }))
    return llvm::createStringError(timed.name + ": " + toString(std::move(error)));
  return calls.typical();
}

llvm::Expected<double> DeviceTimer::secondsOfHandover(int64_t bytes, bool handsOver) {
  constexpr size_t kHops = 200;
  const size_t count = handsOver ? 2 : 1;
  // As a request's values go from stage to stage.
  Failure patience;
  LocalExchange exchange({0, 1}, /*groupSize=*/1, /*transfers=*/kHops, /*microbatches=*/1, patience);
  double seconds = 0;
  auto hop = [&](uint32_t rank) {
    std::vector<c10::IValue> values;
    at::Tensor tensor = at::zeros({std::max<int64_t>(1, bytes / 4)});
    const double begin = clock();
    for (size_t hop = 0; hop < kHops; ++hop) {
      if (handsOver && hop % 2 != rank) {
        TORCH_CHECK(exchange.receive({hop, 0, 1 - rank}, workers[rank]->memory(), values), "no hand-over");
        tensor = values.front().toTensor();
        continue;
      }
      tensor = at::add(tensor, 1);
      values.assign(1, tensor);
      tensor = handsOver ? at::Tensor() : tensor;
      if (handsOver)
        TORCH_CHECK(exchange.send({hop, 0, 1 - rank}, values), "no hand-over");
    }
    if (rank == 0)
      seconds = (clock() - begin) / double(kHops);
  };
  if (llvm::Error error = onDevices(count, hop))
    return error;
  return seconds;
}

} // namespace cleave::runtime
