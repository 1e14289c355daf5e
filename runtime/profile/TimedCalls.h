//===- TimedCalls.h - Calls of an operator on several devices ---*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_PROFILE_TIMEDCALLS_H
#define CLEAVE_RUNTIME_PROFILE_TIMEDCALLS_H

#include "runtime/comm/Communicator.h"
#include "runtime/device/Device.h"
#include "runtime/profile/KernelTimer.h"
#include <ATen/core/stack.h>
#include <optional>

namespace cleave::runtime {

/// The devices that time a call at the same time, one tensor group, as each of them sees the others.
class TimingGroup {
public:
  virtual ~TimingGroup() = default;
  virtual Communicator &member(uint32_t rank) = 0;
  /// Returns when all have come here, with what rank 0 gives; nothing where a rank has failed.
  virtual std::optional<double> agree(uint32_t rank, double seconds) = 0;
  /// The rank does not come any more.
  virtual void abandon() = 0;
};

/// The calls of one measurement, of which all devices make equally many.
class TimedCalls {
public:
  /// Finds the kernels of a plan's operators; see KernelTimer::secondsOf.
  /// \param budget  seconds in which calls are made on each device.
  static llvm::Expected<TimedCalls> of(const KernelTimer::Call &timed, const KernelTimer::Call *before,
                                       double budget, KernelTimer::Clock clock);

  /// Seconds of each call, on the thread of a device; none where another one has failed.
  std::vector<double> sample(uint32_t rank, TimingGroup &group) const;
  /// Of all calls, each the mean over devices: the mean, or the median of those that are timed one by one. Of
  /// these one in which the system runs something else on a core, while other ranks wait, would take more
  /// than all others.
  double typical(std::vector<double> samples) const;

private:
  struct Call {
    torch::jit::Operation operation;
    KernelTimer::Operands operands;
  };
  class Turns;
  TimedCalls(Call timed, std::optional<Call> before, double budget, KernelTimer::Clock clock)
      : timed(std::move(timed)), before(std::move(before)), budget(budget), clock(clock) {}

  Call timed;
  /// Before each call, not timed.
  std::optional<Call> before;
  double budget;
  KernelTimer::Clock clock;
};

/// A device that can be timed, of this machine: a CPU.
llvm::Expected<ResolvedDevice> resolveTimedDevice(const std::string &name);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROFILE_TIMEDCALLS_H
