//===- KernelTimer.cpp - How long devices take for operators --------------===//
#include "runtime/KernelTimer.h"
#include "runtime/Exceptions.h"
#include "runtime/LocalExchange.h"
#include "runtime/Operators.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/Functions.h>
#include <algorithm>
#include <barrier>
#include <latch>
#include <thread>

namespace cleave::runtime {

using Clock = std::chrono::steady_clock;

/// Ranks wait for each other for as long as any call may take.
static constexpr std::chrono::seconds kTimeout{60};

static double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

static double medianOf(std::vector<double> &samples) {
  auto middle = samples.begin() + samples.size() / 2;
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

namespace {
/// Of the group: a rank that fails ends the others' waits.
class Failure final : public Patience {
public:
  bool isOver() const override { return failed; }
  Clock::time_point deadline() override { return Clock::now() + kTimeout; }
  void expire() override { failed = true; }

private:
  std::atomic<bool> failed{false};
};

/// The calls of one measurement, of which all devices make equally many.
class Calls {
public:
  Calls(torch::jit::Operation &operation, const KernelTimer::Operands &operands, double budget, size_t ranks)
      : operation(operation), operands(operands), budget(budget),
        group(0, uint32_t(ranks), /*spins=*/ranks <= std::thread::hardware_concurrency(), patience),
        start(std::ptrdiff_t(ranks)), samples(ranks) {}

  void run(uint32_t rank);
  double median();

private:
  /// Seconds of `count` calls.
  double call(torch::jit::Operation &own, const std::vector<torch::jit::Stack> &variants, int64_t count);

  torch::jit::Operation &operation;
  const KernelTimer::Operands &operands;
  const double budget;
  Failure patience;
  LocalGroup group;
  std::barrier<> start;
  /// Of a call, as the first device finds.
  std::atomic<double> estimate{0};
  std::atomic<bool> hasFailed{false};
  std::vector<std::vector<double>> samples;
};
} // namespace

double Calls::call(torch::jit::Operation &own, const std::vector<torch::jit::Stack> &variants,
                   int64_t count) {
  torch::jit::Stack stack;
  const Clock::time_point begin = Clock::now();
  for (int64_t i = 0; i < count; ++i) {
    stack = variants[size_t(i) % variants.size()];
    own(stack);
    stack.clear();
  }
  return secondsSince(begin);
}

void Calls::run(uint32_t rank) {
  // Time is read once in so many seconds.
  constexpr double kSample = 100e-6;
  constexpr int64_t kFewest = 3, kMost = 1000;
  CommunicatorScope scope(&group.member(rank));
  torch::jit::Operation own = operation;
  std::vector<torch::jit::Stack> variants;
  try {
    variants = operands(rank);
    // What is made once is made by the first call; the second says how long others take.
    call(own, variants, 1);
    if (double seconds = call(own, variants, 1); rank == 0)
      estimate = seconds;
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
  const int64_t callsOfSample = std::clamp<int64_t>(kSample / std::max(estimate.load(), 1e-8), 1, kMost);
  const int64_t count =
      std::clamp<int64_t>(budget / std::max(estimate * double(callsOfSample), 1e-8), kFewest, kMost);
  for (int64_t sample = 0; sample < count; ++sample) {
    // Each sample goes on with other operands.
    std::rotate(variants.begin(), variants.begin() + callsOfSample % int64_t(variants.size()),
                variants.end());
    samples[rank].push_back(call(own, variants, callsOfSample) / double(callsOfSample));
  }
}

double Calls::median() {
  for (std::vector<double> &others : llvm::drop_begin(samples))
    llvm::append_range(samples.front(), others);
  return medianOf(samples.front());
}

KernelTimer::~KernelTimer() = default;

llvm::Expected<std::unique_ptr<KernelTimer>> KernelTimer::open(llvm::ArrayRef<std::string> names,
                                                               Effort effort) {
  std::vector<ResolvedDevice> resolved;
  for (const std::string &name : names) {
    auto device = resolveDevice(name);
    if (!device)
      return device.takeError();
    if (device->plugin)
      return llvm::createStringError("device " + name + ": this version measures CPUs only; use cpu:N");
    resolved.push_back(std::move(*device));
  }
  std::unique_ptr<KernelTimer> timer(new KernelTimer(effort));
  timer->workers = startDevices(resolved);
  return timer;
}

llvm::Error KernelTimer::onDevices(size_t count, const std::function<void(uint32_t rank)> &task) {
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

llvm::Expected<double> KernelTimer::secondsOf(llvm::StringRef name, const Operands &operands) {
  plan::Plan plan;
  plan.operators = {name.str()};
  Operators operators(plan);
  auto found = operators.resolve(0);
  if (!found)
    return found.takeError();
  Calls calls((*found)->onCpu, operands, effort.seconds, devices());
  if (llvm::Error error = onDevices(devices(), [&](uint32_t rank) { calls.run(rank); }))
    return llvm::createStringError(name + ": " + toString(std::move(error)));
  return calls.median();
}

llvm::Expected<double> KernelTimer::secondsOfHandover(int64_t bytes, bool handsOver) {
  constexpr size_t kHops = 200;
  const size_t count = handsOver ? 2 : 1;
  // As a request's values go from stage to stage.
  Failure patience;
  LocalExchange exchange({0, 1}, /*groupSize=*/1, /*transfers=*/kHops, /*microbatches=*/1, patience);
  double seconds = 0;
  auto hop = [&](uint32_t rank) {
    std::vector<c10::IValue> values;
    at::Tensor tensor = at::zeros({std::max<int64_t>(1, bytes / 4)});
    const Clock::time_point begin = Clock::now();
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
      seconds = secondsSince(begin) / double(kHops);
  };
  if (llvm::Error error = onDevices(count, hop))
    return error;
  return seconds;
}

} // namespace cleave::runtime
