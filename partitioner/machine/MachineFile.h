//===- MachineFile.h - Machines from JSON -----------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_MACHINEFILE_H
#define CLEAVE_PARTITIONER_MACHINE_MACHINEFILE_H

#include "partitioner/machine/Machine.h"

namespace cleave {

inline constexpr uint32_t kMostDevices = 1024, kMostThreads = 1024;

/// Reads a machine file. The error names the key that is at fault. A machine file is one object:
///
///     {
///       "devices": [
///         {"name": "cpu:0", "flops_per_second": 2e11, "memory_bytes_per_second": 1e10,
///          "operator_seconds": 2e-6, "memory_bytes": 8589934592, "threads": 1},
///         {"name": "cpu:1", "flops_per_second": 2e11, "memory_bytes_per_second": 1e10,
///          "operator_seconds": 2e-6, "memory_bytes": 8589934592, "threads": 1}
///       ],
///       "link": {"latency_seconds": 5e-6, "bytes_per_second": 1e10},
///       "products": {"matrix": {"float32": {"count": [1], "rows": [1, 128], "columns": [768], "depth":
///       [768],
///                                           "flops_per_second": [5e9, 9e10]}}},
///       "operators": {"aten.gelu": {"bytes": [65536, 16777216], "bytes_per_second": [9e9, 7e9]}},
///       "memory": {"bytes": [65536, 16777216], "bytes_per_second": [9e10, 1e10]},
///       "collectives": {"all_reduce": {"latency_seconds": 1e-5, "ranks": 2, "bytes": [4096, 16777216],
///                                      "bytes_per_second": [1e9, 8e9]}},
///       "nodes": {"devices": 1, "latency_seconds": 1e-5, "bytes_per_second": 1e9}
///     }
///
/// Devices that are not alike have figures of their own, or are of a kind that has, with tables of its own;
/// and links that are not as the others say so:
///
///     {
///       "kinds": {"fast": {"flops_per_second": 2e11, "memory_bytes_per_second": 1e10, "operator_seconds":
///       2e-6,
///                          "memory": {"bytes": [65536, 16777216], "bytes_per_second": [9e10, 1e10]}},
///                 "slow": {"flops_per_second": 1e10, "memory_bytes_per_second": 1e9, "operator_seconds":
///                 1e-5}},
///       "devices": [{"name": "cpu:0", "kind": "fast"}, {"name": "cpu:1", "kind": "slow", "memory_bytes":
///       1073741824}], "link": {"latency_seconds": 5e-6, "bytes_per_second": 1e10}, "links": [{"from":
///       "cpu:0", "to": "cpu:1", "latency_seconds": 1e-3, "bytes_per_second": 1e8}]
///     }
///
/// | key                       | meaning                                       | values                  |
/// |---------------------------|-----------------------------------------------|-------------------------|
/// | `devices`                 | one a rank, in this order                     | 1 to 1024 of them       |
/// | `name`                    | each another                                  | 1 to 64 printable ASCII |
/// | `flops_per_second`        | dense fp32, a product and its sum are two     | 1 to 1e21               |
/// | `memory_bytes_per_second` | main memory                                   | 1 to 1e21               |
/// | `operator_seconds`        | spent on an operator besides its work         | 0 to 1000               |
/// | `memory_bytes`            | may be used; key left out: not limited        | integer, 1 to 2⁶³ - 1   |
/// | `threads`                 | of a CPU, that share an operator; key left out: one | integer, 1 to 1024 |
/// | `kind`                    | in place of these figures but `memory_bytes` and `threads` | a key of
/// `kinds` | | `kinds`                   | figures by name, and `products`, `operators`, `memory` of these
/// devices; those in the file itself are of devices without a kind | an object | | `link` | between two
/// devices of a node, one direction  | an object               | | `links`                   | those that
/// differ from `link` and `nodes`, `from` one device `to` another, and back, unless that is in it, too | an
/// array | | `latency_seconds`         | of one message                                | 0 to 1000 | |
/// `bytes_per_second`        | of one message                                | 1 to 1e21               | |
/// `products`                | a table for each kind and dtype: `matrix`, `pointwise`, `convolution`,
/// `strided`, `attention`; `float32`, `bfloat16`, `float16` | a table by GemmShape | | `operators` | a
/// table for each operator, without overload; the others: `memory` | a table by bytes | | `memory` | bytes
/// read and written by what is no product  | a table by bytes        | | `collectives`             |
/// `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `broadcast`: a table of the bytes that a rank
/// sends, and a latency | a table by the whole tensor's bytes | | `ranks`                   | that these were
/// measured with; key left out: all devices | integer, 2 to 1024 | | `nodes`                   | groups of so
/// many devices, and the link between two of them; `collectives` of its own, if measured, are those of groups
/// over several | an object |
///
/// A table (RateTable) has sizes for each of its axes, ascending, and a rate for each point of their grid,
/// the last axis side by side: 4096 rates at most. Tables count before peaks, so devices whose peaks differ
/// cannot have tables in common, be they the file's or those of their kinds. Only `devices` and `link` must
/// be there, and all of their keys but `memory_bytes`, `threads`, and either `kind` or the three figures that
/// it replaces; no other key may. The file has at most 1 MiB.
llvm::Expected<Machine> readMachineFile(llvm::StringRef path);
/// The same of text that `path` is said to have.
llvm::Expected<Machine> readMachineText(llvm::StringRef text, llvm::StringRef path);

/// What readMachineFile reads; kinds are called by their number, where there have to be some.
std::string machineFileText(const Machine &machine);

/// Of what that text says, in hexadecimal digits: of machines that say the same it is the same.
std::string checksumOf(const Machine &machine);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_MACHINEFILE_H
