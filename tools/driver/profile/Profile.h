//===- Profile.h - Measures a machine ---------------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_PROFILE_PROFILE_H
#define CLEAVE_TOOLS_DRIVER_PROFILE_PROFILE_H

#include "partitioner/machine/Machine.h"
#include "tools/driver/base/Progress.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {
class KernelTimer;
class TimingProcess;
} // namespace cleave::runtime

namespace cleave {

struct ProfileOptions {
  /// `cpu:0`, …: all devices of the plan, since they share the process's threads.
  std::vector<std::string> devices;
  /// Measures few sizes, each briefly, as a smoke test.
  bool quick = false;
  /// Number of rounds; the median counts (the lower middle one for an even number).
  int rounds = 3;
  /// Reports what is measured; may be empty.
  Progress progress;
};

/// How long each device measures for one call, in seconds.
double measurementSecondsOf(const ProfileOptions &options);

/// Fails if a device is given twice.
llvm::Error checkDevicesOnce(llvm::ArrayRef<std::string> devices);

/// Measures this machine as plans use it (runtime/profile/KernelTimer), on all devices at the same time:
/// GEMMs, convolutions and attention by shape, operators by bytes, the overhead of an operator, messages
/// between two devices, collectives over all devices. A round takes half a minute; one device takes a GiB of
/// memory, mostly for weights and the largest results.
llvm::Expected<Machine> profile(const ProfileOptions &options);

/// As above, with the times of `timer`, whose devices `options` names.
llvm::Expected<Machine> profile(const ProfileOptions &options, runtime::KernelTimer &timer);

/// Measures only messages between two of the timer's devices.
llvm::Expected<Link> profileLink(const ProfileOptions &options, runtime::KernelTimer &timer);

/// Measures only collectives over all of the timer's devices.
llvm::Expected<CollectiveCosts> profileCollectives(const ProfileOptions &options,
                                                   runtime::KernelTimer &timer);

/// Measures a machine of several processes, each with one of `devices`, on one host or several: the processes
/// of each host, and the links between processes and between hosts (tools/driver/profile/JoinedMachine).
/// Returns the machine in rank 0, nothing elsewhere.
llvm::Expected<std::optional<Machine>> profile(const ProfileOptions &options,
                                               runtime::TimingProcess &process);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_PROFILE_PROFILE_H
