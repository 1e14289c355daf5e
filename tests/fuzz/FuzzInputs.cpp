//===- FuzzInputs.cpp - Small files and words from anyone -----------------===//
//
// A case is read as a machine file, as a graph to place, as a safetensors file, as the header of one, and as
// options of `cleave compile`, a line each. What passes is what it should be.
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/SafetensorsHeader.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "partitioner/MachineFile.h"
#include "partitioner/PlacementFile.h"
#include "passes/Passes.h"
#include "runtime/TensorFile.h"
#include "tests/fuzz/Fuzz.h"
#include "tools/driver/InputOptions.h"
#include "tools/driver/Mesh.h"
#include "tools/driver/Pipeline.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include <ATen/ATen.h>
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
static constexpr char kGraph[] = R"({"maxSizePerFPGA": 5, "maxFPGAs": 2, "maxCPUs": 1, "nodes": [
  {"id": 1, "supportedOnFpga": 1, "isBackwardNode": 0, "cpuLatency": 9, "fpgaLatency": 2.5, "size": 3, "colorClass": 7},
  {"id": 2, "supportedOnFpga": true, "isBackwardNode": false, "cpuLatency": 8, "fpgaLatency": 0},
  {"id": 4, "supportedOnFpga": 0, "isBackwardNode": 0, "cpuLatency": 1, "fpgaLatency": 3, "size": 2},
  {"id": 5, "supportedOnFpga": 1, "isBackwardNode": 1, "cpuLatency": 9, "fpgaLatency": 1, "colorClass": 7}],
 "edges": [{"sourceId": 1, "destId": 2, "cost": 0.5}, {"sourceId": 2, "destId": 4, "cost": 1},
  {"sourceId": 4, "destId": 5, "cost": 2}]})";
static constexpr char kHeader[] = R"({"__metadata__": {"format": "pt"},
 "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
 "b": {"dtype": "I64", "shape": [], "data_offsets": [24, 32]},
 "c\u00e9": {"dtype": "BOOL", "shape": [0, 7], "data_offsets": [32, 32]}})";
static constexpr char kOptions[] = R"(input ids:i64[4,128]
input x:float32[]
input sr=16000
dynamic ids=batch,seq
role ids=tokens
mesh pp=4
machine cpu:4
stage-before transformer.h.1
capture-points transformer.h.[0-9].*
schedule interleaved
dtype bf16
batch 1
)";
static constexpr uint64_t kHeaderData = 32;

/// A safetensors file of that header.
static std::string fileOf(llvm::StringRef header, uint64_t dataBytes) {
  std::string file(plan::kHeaderLengthBytes, '\0');
  llvm::support::endian::write64le(file.data(), header.size());
  return file + header.str() + std::string(dataBytes, '\1');
}

std::vector<std::string> seeds() {
  return {kMachine, kUnlikeMachine, kGraph, kHeader, kOptions, fileOf(kHeader, kHeaderData)};
}

static void readMachine(llvm::StringRef path) {
  auto machine = readMachineFile(path);
  if (!machine)
    return noteOutcome(llvm::StringRef(toString(machine.takeError())).split(": ").second);
  noteOutcome("a machine");
  promise(!machine->devices.empty() && machine->devices.size() <= kMostDevices, "a machine of no devices");
  for (const DeviceSpec &device : machine->devices) {
    promise(std::isfinite(device.flopsPerSecond) && device.flopsPerSecond > 0 &&
                device.memoryBytesPerSecond > 0 && device.operatorSeconds >= 0 &&
                device.memoryBytes.value_or(1) > 0,
            "a machine with figures that are none");
    if (device.rates)
      for (auto &[key, table] : device.rates->products)
        promise(table.at({1, 2, 3, 4}) > 0 && std::isfinite(table.at({1e9, 1e9, 1e9, 1e9})), "a rate that is none");
  }
  for (const auto &[ends, link] : machine->unlikeLinks)
    promise(std::max(ends.first, ends.second) < machine->devices.size() && link.latencySeconds >= 0 && link.bytesPerSecond > 0,
            "a link that is none");
}

static void checkPlacement(const PlacementProblem &problem, const SearchLimits &limits) {
  auto placement = place(problem, limits);
  if (!placement)
    return noteOutcome(toString(placement.takeError()));
  size_t placed = 0;
  for (const auto *devices : {&placement->accelerators, &placement->cpus})
    for (const DeviceLoad &device : *devices)
      placed += device.nodes.size();
  promise(placed == problem.nodes.size(), "a placement of some nodes only");
  promise(placement->lowerBound >= 0 && placement->lowerBound <= placement->maxLoad, "a bound that is none");
}

static void readGraph(llvm::StringRef path) {
  auto problem = readPlacementFile(path);
  if (!problem)
    return noteOutcome(llvm::StringRef(toString(problem.takeError())).split(": ").second);
  noteOutcome("a graph");
  checkPlacement(*problem, {/*downsets=*/1000, /*work=*/100000});
  // Along linear orders only, and not to their end.
  checkPlacement(*problem, {/*downsets=*/1, /*work=*/200});
}

/// Every element of every tensor is there.
static void readTensorFile(llvm::StringRef path) {
  auto tensors = runtime::readTensors(path);
  if (!tensors)
    return noteOutcome(llvm::StringRef(toString(tensors.takeError())).split(": ").second);
  noteOutcome("tensors");
  uint64_t sum = 0;
  for (const runtime::NamedTensor &tensor : *tensors)
    for (uint8_t byte :
         llvm::ArrayRef(static_cast<const uint8_t *>(tensor.tensor.const_data_ptr()), tensor.tensor.nbytes()))
      sum += byte;
  promise(sum != UINT64_MAX, "a sum");
}

static CompileOptions optionsOf(llvm::StringRef text) {
  CompileOptions options;
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    auto [option, value] = line.split(' ');
    auto *list = llvm::StringSwitch<std::vector<std::string> *>(option)
                     .Case("input", &options.inputs)
                     .Case("dynamic", &options.dynamic)
                     .Case("role", &options.roles)
                     .Case("stage-before", &options.stageBefore)
                     .Case("capture-points", &options.capturePoints)
                     .Default(nullptr);
    auto *word = llvm::StringSwitch<std::string *>(option)
                     .Case("mesh", &options.mesh)
                     .Case("machine", &options.machine)
                     .Case("schedule", &options.schedule)
                     .Case("dtype", &options.dtype)
                     .Default(nullptr);
    if (list)
      list->push_back(value.str());
    else if (word)
      *word = value.str();
    else if (option == "batch")
      options.microbatches = 2;
  }
  return options;
}

/// Options that pass make a pass pipeline, in which they stand as they were given.
static void readOptions(llvm::StringRef text) {
  CompileOptions options = optionsOf(text);
  auto inputs = readInputOptions(options);
  if (!inputs)
    return noteOutcome(toString(inputs.takeError()));
  auto shape = readPipelineShape(options);
  if (!shape)
    return noteOutcome(toString(shape.takeError()));
  if (shape->microbatches != 1)
    shape->batch = nameBatch(*inputs);
  static const bool isRegistered = (registerPasses(), true);
  (void)isRegistered;
  std::string pipeline = pipelineOf(options, *shape), errors, printed;
  llvm::raw_string_ostream out(printed), errorOut(errors);
  auto parsed = mlir::parsePassPipeline(pipeline, errorOut);
  promise(succeeded(parsed), "a pipeline that does not parse: " + pipeline + ": " + errors);
  parsed->printAsTextualPipeline(out);
  for (const std::string &path : options.stageBefore)
    promise(llvm::StringRef(printed).contains(path), path + " is not in " + printed);
  noteOutcome("options");
}

bool test(llvm::ArrayRef<uint8_t> bytes) {
  MemoryFile file(bytes), headed(bytesOf(fileOf(textOf(bytes), kHeaderData)));
  readMachine(file.path);
  readGraph(file.path);
  readTensorFile(file.path);
  readTensorFile(headed.path);
  readOptions(textOf(bytes));
  return true;
}

} // namespace cleave::fuzz
