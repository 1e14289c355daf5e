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

/// What is known of a device's kernels beyond peaks.
struct KernelRates {
  /// Floating-point operations a second of products by kind and dtype (`bfloat16`), by the count, rows,
  /// columns and depth of a GemmShape; where a table has one number, that is a peak.
  std::map<std::pair<GemmKind, std::string>, RateTable> products;
  /// Bytes read and written a second by operators, without overload (`aten.gelu`), by these bytes.
  std::map<std::string, RateTable> operators;
  /// … and by all others; empty: DeviceSpec::memoryBytesPerSecond.
  RateTable memory;
  bool operator==(const KernelRates &) const = default;
};

struct DeviceSpec {
  std::string name;
  /// Dense products, fp32, per second.
  double flopsPerSecond;
  /// Main memory, bytes per second.
  double memoryBytesPerSecond;
  /// Spent on every operator besides its work.
  double operatorSeconds;
  /// Nothing: not limited.
  std::optional<int64_t> memoryBytes;
  /// Shared by devices of one kind; null: the peaks above are all that is known.
  std::shared_ptr<const KernelRates> rates = nullptr;
  /// That share an operator, on a CPU: each has a workspace of its own.
  uint32_t threads = 1;
  bool operator==(const DeviceSpec &) const = default;

  bool hasTablesOf(const DeviceSpec &other) const {
    return rates == other.rates || (rates && other.rates && *rates == *other.rates);
  }
  /// Whether they differ in name and memory at most.
  bool computesLike(const DeviceSpec &other) const {
    return flopsPerSecond == other.flopsPerSecond && memoryBytesPerSecond == other.memoryBytesPerSecond &&
           operatorSeconds == other.operatorSeconds && hasTablesOf(other);
  }
};

/// A device for every rank, and the links between any two.
struct Machine {
  /// Groups of so many devices, in order, have a faster link among themselves.
  struct Nodes {
    uint32_t devices = 1;
    /// Between devices of two nodes.
    Link link;
    /// Of a group over several.
    CollectiveCosts collectives = link;
  };

  std::vector<DeviceSpec> devices;
  /// Within a node.
  Link link;
  /// By sender and receiver, places in `devices`, where it is another; always both directions of two devices.
  std::map<std::pair<uint32_t, uint32_t>, Link> linkOverrides;
  /// Nothing: all are one node.
  std::optional<Nodes> nodes;
  /// Of a group within one node.
  CollectiveCosts collectives;

  /// Some of the groups of `count` devices, one behind the other, are on two nodes.
  bool crossesNodes(uint32_t count) const {
    return nodes &&
           (count > nodes->devices || (devices.size() > nodes->devices && nodes->devices % count != 0));
  }
  /// The slowest link among the first `count` devices.
  const Link &linkAmong(uint32_t count) const { return nodes && count > nodes->devices ? nodes->link : link; }
  /// Of the groups of `count` devices, one behind the other: of those over two nodes, if there are such.
  const CollectiveCosts &collectivesAmong(uint32_t count) const {
    return crossesNodes(count) ? nodes->collectives : collectives;
  }

  /// `count` CPU devices of one thread each, `cpu:0` and on. Their figures are assumptions (see Presets.cpp).
  static Machine cpu(uint32_t count);

  /// Of this name (see Presets.cpp); nothing where it is none's.
  static std::optional<Machine> preset(llvm::StringRef name);

  /// A preset, or the path of a JSON file (MachineFile.h); untrusted input.
  static llvm::Expected<Machine> load(llvm::StringRef presetOrPath);
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_MACHINE_H
