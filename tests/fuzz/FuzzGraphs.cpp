//===- FuzzGraphs.cpp - Graphs to place from anyone -----------------------===//
#include "partitioner/placement/PlacementFile.h"
#include "tests/fuzz/Fuzz.h"

namespace cleave::fuzz {

static constexpr char kGraph[] = R"({"maxSizePerFPGA": 5, "maxFPGAs": 2, "maxCPUs": 1, "nodes": [
  {"id": 1, "supportedOnFpga": 1, "isBackwardNode": 0, "cpuLatency": 9, "fpgaLatency": 2.5, "size": 3, "colorClass": 7},
  {"id": 2, "supportedOnFpga": true, "isBackwardNode": false, "cpuLatency": 8, "fpgaLatency": 0},
  {"id": 4, "supportedOnFpga": 0, "isBackwardNode": 0, "cpuLatency": 1, "fpgaLatency": 3, "size": 2},
  {"id": 5, "supportedOnFpga": 1, "isBackwardNode": 1, "cpuLatency": 9, "fpgaLatency": 1, "colorClass": 7}],
 "edges": [{"sourceId": 1, "destId": 2, "cost": 0.5}, {"sourceId": 2, "destId": 4, "cost": 1},
  {"sourceId": 4, "destId": 5, "cost": 2}]})";

std::vector<std::string> seeds() { return {kGraph}; }

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
  // Along linear orders only, with bounded work.
  checkPlacement(*problem, {/*downsets=*/1, /*work=*/200});
}

bool test(llvm::ArrayRef<uint8_t> bytes) {
  MemoryFile file(bytes);
  readGraph(file.path);
  return true;
}

} // namespace cleave::fuzz
