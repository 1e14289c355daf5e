//===- Profile.h - A machine from measurements ------------------*- C++ -*-===//
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
  /// `cpu:0`, …: those of a plan, for each has its share of the process's threads.
  std::vector<std::string> devices;
  /// Few sizes, each for a moment: to see that it works.
  bool quick = false;
  /// How often everything is measured; the median counts, the lower one of an even number's.
  int passes = 3;
  /// Told what is measured; may be empty.
  Progress progress;
};

/// Seconds for which a call is timed on each device.
double effortOf(const ProfileOptions &options);

/// Fails where a device is given twice.
llvm::Error checkDevicesOnce(llvm::ArrayRef<std::string> devices);

/// Measures this machine as plans use it (runtime/profile/KernelTimer), all devices at the same time:
/// products, convolutions and attention by shape, operators by bytes, the call of an operator, hand-overs
/// between two devices, collectives over all of them. A pass takes half a minute, and a GiB of memory with
/// one device, most of it weights to read and the largest results.
llvm::Expected<Machine> profile(const ProfileOptions &options);

/// … by what `timer`, of these devices, says that calls take.
llvm::Expected<Machine> profile(const ProfileOptions &options, runtime::KernelTimer &timer);

/// Hand-overs between two of the timer's devices alone.
llvm::Expected<Link> profileLink(const ProfileOptions &options, runtime::KernelTimer &timer);

/// Collectives over all of them alone.
llvm::Expected<CollectiveCosts> profileCollectives(const ProfileOptions &options,
                                                   runtime::KernelTimer &timer);

/// Measures the machine that several processes are, each with one of `devices`, on one host or several: what
/// processes of a host do at the same time, and what lies between them and between hosts
/// (tools/driver/JoinedMachine). In process 0; elsewhere nothing.
llvm::Expected<std::optional<Machine>> profile(const ProfileOptions &options,
                                               runtime::TimingProcess &process);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_PROFILE_PROFILE_H
