//===- TimedCalls.h - Calls timed on all devices ----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_PROFILE_TIMEDCALLS_H
#define CLEAVE_RUNTIME_PROFILE_TIMEDCALLS_H

#include "runtime/comm/CollectiveCall.h"
#include "runtime/comm/Communicator.h"
#include "runtime/device/DeviceWorker.h"
#include "runtime/profile/KernelTimer.h"
#include <ATen/core/stack.h>
#include <optional>

namespace cleave::runtime {

/// Devices that time a call at the same time, as one tensor-parallel group.
class TimingGroup {
public:
  virtual ~TimingGroup() = default;
  virtual Communicator &member(uint32_t rank) = 0;
  /// Barrier of all devices. Returns the `seconds` of rank 0; nothing if a rank has failed.
  virtual std::optional<double> broadcastFromFirst(uint32_t rank, double seconds) = 0;
  /// Leaves the group, after a failure of this rank.
  virtual void abandon() = 0;
};

/// One measurement: the same number of calls on each device.
class TimedCalls {
public:
  /// Resolves the kernels that plans use; see KernelTimer::secondsOf.
  /// \param budget  seconds of calls on each device.
  static llvm::Expected<TimedCalls> of(const KernelTimer::Call &timed, const KernelTimer::Call *before,
                                       double budget, KernelTimer::Clock clock);

  /// Seconds of each sample, measured on the thread of a device; empty if another device has failed.
  std::vector<double> sample(uint32_t rank, TimingGroup &group) const;
  /// The mean of the samples, or their median if there is a call `before`: a sample is then a single call,
  /// and one that was preempted would dominate the mean.
  /// \param samples  averaged over the devices.
  double summarize(std::vector<double> samples) const;

private:
  struct Call {
    torch::jit::Operation operation;
    /// Nothing for an operator that does not communicate.
    std::optional<CollectiveOp> collective;
    KernelTimer::Operands operands;
  };
  class Turns;
  TimedCalls(Call timed, std::optional<Call> before, double budget, KernelTimer::Clock clock)
      : timed(std::move(timed)), before(std::move(before)), budget(budget), clock(clock) {}

  Call timed;
  /// Runs before each call; not timed.
  std::optional<Call> before;
  double budget;
  KernelTimer::Clock clock;
};

/// Resolves a device of this machine that can be timed: a CPU.
llvm::Expected<ResolvedDevice> resolveTimedDevice(const std::string &name);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROFILE_TIMEDCALLS_H
