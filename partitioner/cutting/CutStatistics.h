//===- CutStatistics.h - What stages of a cut send and hold -----*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_CUTSTATISTICS_H
#define CLEAVE_PARTITIONER_CUTTING_CUTSTATISTICS_H

#include "partitioner/graph/StageGraph.h"
#include "partitioner/simulation/Simulator.h"
#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// Bytes that stages send to each other; transfers within one pipeline rank are left out.
/// \param ranks  number of pipeline ranks; stage s is on pipeline rank s mod `ranks`.
std::vector<TransferSize> transfersOf(const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf,
                                      uint32_t ranks);

/// By stage: peak bytes of values alive in program order. A value lives from its producer, or the beginning
/// of the stage, to its last use, or the end of the stage if another stage uses it.
std::vector<int64_t> peakLiveBytes(const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf,
                                   uint32_t stages);

/// By pipeline rank: bytes of the weights of its stages, each weight once.
std::vector<int64_t> weightsOf(const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf, uint32_t ranks);

/// Seconds of the critical path, with each operation on its fastest kind of device.
double criticalPathSeconds(const StageGraph &graph);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_CUTSTATISTICS_H
