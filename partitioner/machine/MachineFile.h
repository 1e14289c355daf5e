//===- MachineFile.h - Machines from JSON -----------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_MACHINEFILE_H
#define CLEAVE_PARTITIONER_MACHINE_MACHINEFILE_H

#include "partitioner/machine/Machine.h"

namespace cleave {

inline constexpr uint32_t kMaxDevices = 1024, kMaxThreads = 1024;

// clang-format off: it would break the lines of the examples and of the table.
/// Reads a machine file; an error names the key that is at fault. A machine file is one object:
///
///     {
///       "devices": [
///         {"name": "cpu:0", "flops_per_second": 2e11, "memory_bytes_per_second": 1e10,
///          "operator_seconds": 2e-6, "memory_bytes": 8589934592, "threads": 1},
///         {"name": "cpu:1", "flops_per_second": 2e11, "memory_bytes_per_second": 1e10,
///          "operator_seconds": 2e-6, "memory_bytes": 8589934592, "threads": 1}
///       ],
///       "link": {"latency_seconds": 5e-6, "bytes_per_second": 1e10},
///       "products": {"matrix": {"float32": {"count": [1], "rows": [1, 128], "columns": [768],
///                                           "depth": [768], "flops_per_second": [5e9, 9e10]}}},
///       "operators": {"aten.gelu": {"bytes": [65536, 16777216], "bytes_per_second": [9e9, 7e9]}},
///       "memory": {"bytes": [65536, 16777216], "bytes_per_second": [9e10, 1e10]},
///       "collectives": {"all_reduce": {"latency_seconds": 1e-5, "ranks": 2, "bytes": [4096, 16777216],
///                                      "bytes_per_second": [1e9, 8e9]}},
///       "nodes": {"devices": 1, "latency_seconds": 1e-5, "bytes_per_second": 1e9}
///     }
///
/// Heterogeneous devices have figures of their own, or a kind that has figures and tables. `links` lists
/// link overrides:
///
///     {
///       "kinds": {
///         "fast": {"flops_per_second": 2e11, "memory_bytes_per_second": 1e10, "operator_seconds": 2e-6,
///                  "memory": {"bytes": [65536, 16777216], "bytes_per_second": [9e10, 1e10]}},
///         "slow": {"flops_per_second": 1e10, "memory_bytes_per_second": 1e9, "operator_seconds": 1e-5}
///       },
///       "devices": [{"name": "cpu:0", "kind": "fast"},
///                   {"name": "cpu:1", "kind": "slow", "memory_bytes": 1073741824}],
///       "link": {"latency_seconds": 5e-6, "bytes_per_second": 1e10},
///       "links": [{"from": "cpu:0", "to": "cpu:1", "latency_seconds": 1e-3, "bytes_per_second": 1e8}]
///     }
///
/// Keys, with their values:
/// - `devices`: by rank: its device; 1 to 1024 devices.
/// - `name`: of a device; all differ; 1 to 64 printable ASCII.
/// - `flops_per_second`: dense fp32; a multiply-add counts as two; 1 to 1e21.
/// - `memory_bytes_per_second`: of main memory; 1 to 1e21.
/// - `operator_seconds`: dispatch overhead: spent on every operator besides its work; 0 to 1000.
/// - `memory_bytes`: that may be used; if absent, not limited; integer, 1 to 2⁶³ - 1.
/// - `threads`: of a CPU, that share an operator; if absent, one; integer, 1 to 1024.
/// - `kind`: replaces a device's figures, except for `memory_bytes` and `threads`; a key of `kinds`.
/// - `kinds`: by name: figures, and `products`, `operators`, `memory` of these devices; the file's own
///   tables are for devices without a kind; an object.
/// - `link`: between two devices of a node, in one direction; an object.
/// - `links`: overrides of `link` and `nodes` between the devices `from` and `to`, for both directions
///   unless the other one is listed, too; an array.
/// - `latency_seconds`: of one message; 0 to 1000.
/// - `bytes_per_second`: of one message; 1 to 1e21.
/// - `products`: rates of contractions (KernelRates::gemms), by kind (`matrix`, `pointwise`, `convolution`,
///   `strided`, `attention`) and dtype (`float32`, `bfloat16`, `float16`); a table by GemmShape.
/// - `operators`: by operator without overload; `memory` holds for others; a table by bytes.
/// - `memory`: rates of other operators (KernelRates::otherOperators): bytes read and written per second, no
///   contractions; a table by bytes.
/// - `collectives`: by `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `broadcast`: a latency,
///   and the bytes that a rank sends per second; a table by the whole tensor's bytes.
/// - `ranks`: number that `collectives` were measured with; if absent, all devices; integer, 2 to 1024.
/// - `nodes`: devices per node, and the link between two nodes; its `collectives`, if measured, are for
///   groups over several nodes; an object.
///
/// A table (RateTable) has ascending sizes for each axis and a rate for each grid point, at most 4096
/// rates; the last axis varies fastest. Tables take precedence over peaks, so devices with different peaks
/// cannot share tables, whether of the file or of a kind. Required keys are `devices` and `link`, and all
/// keys inside them except for `memory_bytes`, `threads`, and either `kind` or the three figures that it
/// replaces. Unknown keys are errors. The file has at most 1 MiB.
// clang-format on
llvm::Expected<Machine> readMachineFile(llvm::StringRef path);
/// Reads a machine from text like a machine file's; `source` begins every message.
llvm::Expected<Machine> readMachineText(llvm::StringRef text, llvm::StringRef source);

/// The text of a machine file, as readMachineFile reads it. Kinds, if any are needed, are named by number.
std::string machineFileText(const Machine &machine);

/// A hexadecimal checksum of machineFileText: equal for equal machines.
std::string checksumOf(const Machine &machine);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_MACHINEFILE_H
