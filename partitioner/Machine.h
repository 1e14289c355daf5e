//===- Machine.h - Devices and links ----------------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_H
#define CLEAVE_PARTITIONER_MACHINE_H

#include "partitioner/StageGraph.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

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
  bool operator==(const DeviceSpec &) const = default;
};

/// Devices of one kind for every rank, and the link between any two.
struct Machine {
  std::vector<DeviceSpec> devices;
  Link link;

  /// `count` CPU devices of one thread each.
  static Machine cpu(uint32_t count);
  /// A preset (`cpu:4`) or the path of a JSON file (docs/plan-format.md, "Machine files"); untrusted input.
  static llvm::Expected<Machine> load(llvm::StringRef presetOrPath);
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_H
