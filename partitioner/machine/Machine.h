//===- Machine.h - Devices and links ----------------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_MACHINE_H
#define CLEAVE_PARTITIONER_MACHINE_MACHINE_H

#include "partitioner/machine/CollectiveCosts.h"
#include "partitioner/machine/Link.h"
#include "partitioner/machine/RateTable.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cleave {

/// Measured rates of a device's kernels, beyond its peaks.
struct KernelRates {
  /// By kind and dtype (`bfloat16`): floating-point operations per second of contractions, by the count,
  /// rows, columns and depth of a GemmShape. A table of one number is a peak.
  std::map<std::pair<GemmKind, std::string>, RateTable> gemms;
  /// By operator name without overload (`aten.gelu`): bytes read and written per second, by that number of
  /// bytes.
  std::map<std::string, RateTable> operators;
  /// The same for operators that `operators` does not list. If it is empty, too, they run at
  /// DeviceSpec::memoryBytesPerSecond.
  RateTable otherOperators;
  bool operator==(const KernelRates &) const = default;
};

struct DeviceSpec {
  std::string name;
  /// Peak of dense fp32 contractions, in floating-point operations per second.
  double flopsPerSecond;
  /// Peak of main memory, in bytes per second.
  double memoryBytesPerSecond;
  /// Dispatch overhead: seconds spent on every operator besides its work.
  double dispatchSeconds;
  /// Memory that may be used; nothing if it is not limited.
  std::optional<int64_t> memoryBytes;
  /// Shared by devices of one kind; null if only the peaks above are known.
  std::shared_ptr<const KernelRates> rates = nullptr;
  /// Threads that share an operator on a CPU; each has its own workspace.
  uint32_t threads = 1;
  bool operator==(const DeviceSpec &) const = default;

  bool hasTablesOf(const DeviceSpec &other) const {
    return rates == other.rates || (rates && other.rates && *rates == *other.rates);
  }
  /// True if the devices differ at most in name and memory.
  bool computesLike(const DeviceSpec &other) const {
    return flopsPerSecond == other.flopsPerSecond && memoryBytesPerSecond == other.memoryBytesPerSecond &&
           dispatchSeconds == other.dispatchSeconds && hasTablesOf(other);
  }
};

/// A device for each rank, and the links between any two devices.
struct Machine {
  /// Nodes of `devices` consecutive devices each, which have a faster link inside a node.
  struct Nodes {
    uint32_t devices = 1;
    /// Link between devices of different nodes.
    Link link;
    /// Costs of a group of devices on several nodes.
    CollectiveCosts collectives = link;
  };

  std::vector<DeviceSpec> devices;
  /// Link between devices of one node.
  Link link;
  /// By sender and receiver, as indices into `devices`: links that differ from `link` and `nodes`. Both
  /// directions of a pair are always present.
  std::map<std::pair<uint32_t, uint32_t>, Link> linkOverrides;
  /// Nothing: all devices are on one node.
  std::optional<Nodes> nodes;
  /// Costs of a group of devices on one node.
  CollectiveCosts collectives;

  /// True if some group of `count` consecutive devices spans two nodes.
  bool crossesNodes(uint32_t count) const {
    return nodes &&
           (count > nodes->devices || (devices.size() > nodes->devices && nodes->devices % count != 0));
  }
  /// The slower link among the first `count` devices, link overrides excluded.
  const Link &linkAmong(uint32_t count) const { return nodes && count > nodes->devices ? nodes->link : link; }
  /// Costs of the slowest group of `count` consecutive devices: those of a group on several nodes if there is
  /// one.
  const CollectiveCosts &collectivesAmong(uint32_t count) const {
    return crossesNodes(count) ? nodes->collectives : collectives;
  }

  /// `count` CPU devices of one thread each, named `cpu:0` and on, with assumed figures (see Presets.cpp).
  static Machine cpu(uint32_t count);

  /// The preset of this name (see Presets.cpp); nothing if there is none.
  static std::optional<Machine> preset(llvm::StringRef name);

  /// Loads a preset, or a machine file at this path (MachineFile.h), which is untrusted input.
  static llvm::Expected<Machine> load(llvm::StringRef presetOrPath);
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_MACHINE_H
