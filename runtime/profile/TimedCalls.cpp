//===- TimedCalls.cpp - Calls timed on all devices ------------------------===//
#include "runtime/profile/TimedCalls.h"
#include "runtime/comm/Collectives.h"
#include "runtime/operators/Operators.h"
#include <algorithm>
#include <numeric>

namespace cleave::runtime {

/// Calls of one device; operands are used in turn.
class TimedCalls::Turns {
public:
  Turns(const Call &call, uint32_t rank, Communicator &group)
      : operation(call.operation), variants(call.operands(rank)) {
    if (call.collective)
      operation = [&group, collective = *call.collective](torch::jit::Stack &stack) {
        callCollective(&group, collective, stack);
      };
  }

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

llvm::Expected<TimedCalls> TimedCalls::of(const KernelTimer::Call &timed, const KernelTimer::Call *before,
                                          double budget, KernelTimer::Clock clock) {
  plan::Plan plan;
  plan.operators = {timed.name};
  if (before)
    plan.operators.push_back(before->name);
  Operators operators(plan);
  auto resolve = [&](uint32_t index, const KernelTimer::Call &call) -> llvm::Expected<Call> {
    auto found = operators.resolve(index);
    if (!found)
      return found.takeError();
    return Call{(*found)->onCpu, collectiveOf(call.name), call.operands};
  };
  auto own = resolve(0, timed);
  if (!own)
    return own.takeError();
  std::optional<Call> preceding;
  if (before)
    if (llvm::Error error = resolve(1, *before).moveInto(preceding))
      return error;
  return TimedCalls(std::move(*own), std::move(preceding), budget, clock);
}

std::vector<double> TimedCalls::sample(uint32_t rank, TimingGroup &group) const {
  // Least seconds between two reads of the clock.
  constexpr double kSample = 100e-6;
  constexpr int64_t kMost = 1000;
  std::optional<Turns> own, preceding;
  auto sample = [&](int64_t count) {
    if (preceding)
      preceding->call();
    const double begin = clock();
    own->call(count);
    return clock() - begin;
  };
  double found = 0;
  try {
    own.emplace(timed, rank, group.member(rank));
    if (before)
      preceding.emplace(*before, rank, group.member(rank));
    // The first call includes one-time set-up; the second one gives an estimate.
    sample(1);
    const double begin = clock();
    sample(1);
    found = clock() - begin;
  } catch (...) {
    group.abandon();
    throw;
  }
  const std::optional<double> estimate = group.broadcastFromFirst(rank, found);
  if (!estimate)
    return {};
  const int64_t calls = before ? 1 : std::clamp<int64_t>(kSample / std::max(*estimate, 1e-8), 1, kMost);
  const int64_t count = std::clamp<int64_t>(budget / std::max(*estimate * double(calls), 1e-8), 1, kMost);
  std::vector<double> samples;
  for (int64_t i = 0; i < count; ++i)
    samples.push_back(sample(calls) / double(calls));
  return samples;
}

double TimedCalls::summarize(std::vector<double> samples) const {
  if (!before)
    return std::accumulate(samples.begin(), samples.end(), 0.0) / double(samples.size());
  const auto middle = samples.begin() + samples.size() / 2;
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

llvm::Expected<ResolvedDevice> resolveTimedDevice(const std::string &name) {
  auto device = resolveDevice(name);
  if (!device)
    return device.takeError();
  if (device->plugin)
    return llvm::createStringError("device " + name + ": this version measures CPUs only; use cpu:N");
  return device;
}

} // namespace cleave::runtime
