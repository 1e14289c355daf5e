//===- PlacementFile.h - Placement problems from JSON -----------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_PLACEMENT_PLACEMENTFILE_H
#define CLEAVE_PARTITIONER_PLACEMENT_PLACEMENTFILE_H

#include "partitioner/placement/Placement.h"
#include "llvm/ADT/StringRef.h"

namespace cleave {

/// Reads the format of the published device-placement benchmark (github.com/msr-fiddle/dnn-partitioning):
///
///   {"maxSizePerFPGA": bytes, "maxFPGAs": accelerators, "maxCPUs": count,
///    "nodes": [{"id", "supportedOnFpga", "isBackwardNode", "cpuLatency", "fpgaLatency", "size"?,
///    "colorClass"?, "name"?, "layerId"?}, …], "edges": [{"sourceId", "destId", "cost", "size"?}, …]}
///
/// A cost belongs to the edge's source and is the same on all edges of that source. Names and layers of
/// nodes, and sizes of edges, are ignored. Other keys are errors. An error names the entry that is at fault.
llvm::Expected<PlacementProblem> readPlacementFile(llvm::StringRef path);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_PLACEMENT_PLACEMENTFILE_H
