//===- FuzzMachines.cpp - Machine files from anyone -----------------------===//
#include "partitioner/machine/MachineFile.h"
#include "tests/fuzz/Fuzz.h"
#include <cmath>

namespace cleave::fuzz {

static constexpr char kMachine[] = R"({"devices": [
  {"name": "cpu:0", "flops_per_second": 2e11, "memory_bytes_per_second": 1e10, "operator_seconds": 2e-6,
   "memory_bytes": 8589934592, "threads": 1},
  {"name": "cpu:1", "flops_per_second": 2e11, "memory_bytes_per_second": 1e10, "operator_seconds": 2e-6,
   "memory_bytes": 8589934592, "threads": 1}],
 "link": {"latency_seconds": 5e-6, "bytes_per_second": 1e10},
 "products": {"matrix": {"float32": {"count": [1], "rows": [1, 9], "columns": [8], "depth": [8], "flops_per_second": [1e9, 2e9]}}},
 "operators": {"aten.gelu": {"bytes": [64, 4096], "bytes_per_second": [9e9, 7e9]}},
 "memory": {"bytes": [64], "bytes_per_second": [9e10]},
 "collectives": {"all_reduce": {"latency_seconds": 1e-5, "bytes": [64], "bytes_per_second": [1e9]}},
 "nodes": {"devices": 1, "latency_seconds": 1e-5, "bytes_per_second": 1e9,
           "collectives": {"broadcast": {"latency_seconds": 1e-5, "bytes": [64], "bytes_per_second": [1e9]}}}})";
static constexpr char kUnlikeMachine[] = R"({"kinds": {
  "fast": {"flops_per_second": 2e11, "memory_bytes_per_second": 1e10, "operator_seconds": 2e-6,
           "memory": {"bytes": [64], "bytes_per_second": [9e10]}},
  "slow": {"flops_per_second": 1e10, "memory_bytes_per_second": 1e9, "operator_seconds": 1e-5}},
 "devices": [{"name": "a", "kind": "fast"}, {"name": "b", "kind": "slow", "memory_bytes": 1024}, {"name": "c", "kind": "slow"}],
 "link": {"latency_seconds": 5e-6, "bytes_per_second": 1e10},
 "links": [{"from": "a", "to": "b", "latency_seconds": 1e-3, "bytes_per_second": 1e8},
           {"from": "b", "to": "a", "latency_seconds": 1e-2, "bytes_per_second": 1e8}]})";

std::vector<std::string> seeds() { return {kMachine, kUnlikeMachine}; }

static void readMachine(llvm::StringRef path) {
  auto machine = readMachineFile(path);
  if (!machine)
    return noteOutcome(llvm::StringRef(toString(machine.takeError())).split(": ").second);
  noteOutcome("a machine");
  promise(!machine->devices.empty() && machine->devices.size() <= kMaxDevices, "a machine of no devices");
  for (const DeviceSpec &device : machine->devices) {
    promise(std::isfinite(device.flopsPerSecond) && device.flopsPerSecond > 0 &&
                device.memoryBytesPerSecond > 0 && device.dispatchSeconds >= 0 &&
                device.memoryBytes.value_or(1) > 0,
            "a machine with figures that are none");
    if (device.rates)
      for (auto &[key, table] : device.rates->gemms)
        promise(table.at({1, 2, 3, 4}) > 0 && std::isfinite(table.at({1e9, 1e9, 1e9, 1e9})),
                "a rate that is none");
  }
  for (const auto &[ends, link] : machine->linkOverrides)
    promise(std::max(ends.first, ends.second) < machine->devices.size() && link.latencySeconds >= 0 &&
                link.bytesPerSecond > 0,
            "a link that is none");
}

bool test(llvm::ArrayRef<uint8_t> bytes) {
  MemoryFile file(bytes);
  readMachine(file.path);
  return true;
}

} // namespace cleave::fuzz
