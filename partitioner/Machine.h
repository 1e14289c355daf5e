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

  /// `count` CPU devices of one thread each, `cpu:0` and on. Their figures are assumptions (see Machine.cpp).
  static Machine cpu(uint32_t count);

  /// A preset, `cpu:1` to `cpu:1024`, or the path of a JSON file; untrusted input. A machine file is one
  /// object:
  ///
  ///     {
  ///       "devices": [
  ///         {"name": "cpu:0", "flops_per_second": 2e11, "memory_bytes_per_second": 1e10,
  ///          "operator_seconds": 2e-6, "memory_bytes": 8589934592},
  ///         {"name": "cpu:1", "flops_per_second": 2e11, "memory_bytes_per_second": 1e10,
  ///          "operator_seconds": 2e-6, "memory_bytes": 8589934592}
  ///       ],
  ///       "link": {"latency_seconds": 5e-6, "bytes_per_second": 1e10}
  ///     }
  ///
  /// | key                       | meaning                                   | values                  |
  /// |---------------------------|-------------------------------------------|-------------------------|
  /// | `devices`                 | one a rank, alike in all but name         | 1 to 1024 of them       |
  /// | `name`                    | for messages; may repeat                  | 1 to 64 printable ASCII |
  /// | `flops_per_second`        | dense fp32, a product and its sum are two | 1 to 1e21               |
  /// | `memory_bytes_per_second` | main memory                               | 1 to 1e21               |
  /// | `operator_seconds`        | spent on an operator besides its work     | 0 to 1000               |
  /// | `memory_bytes`            | may be used; key left out: not limited    | integer, 1 or more      |
  /// | `link`                    | between any two devices, one direction    | an object               |
  /// | `latency_seconds`         | of one message                            | 0 to 1000               |
  /// | `bytes_per_second`        | of one message                            | 1 to 1e21               |
  ///
  /// Every key but `memory_bytes` must be there, and no other may. The file has at most 1 MiB.
  static llvm::Expected<Machine> load(llvm::StringRef presetOrPath);
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_H
