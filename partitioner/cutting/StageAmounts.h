//===- StageAmounts.h - What stages of a cut send and hold ------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_STAGEAMOUNTS_H
#define CLEAVE_PARTITIONER_CUTTING_STAGEAMOUNTS_H

#include "partitioner/graph/StageGraph.h"
#include "partitioner/simulation/Simulator.h"
#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// The values that stages give each other, those of one rank left out.
std::vector<TransferSize> transfersOf(const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf,
                                      uint32_t ranks);

/// Per stage: the most bytes of values that live at once in program order, each from its maker, or the begin
/// of the stage, to its last use, or the end.
std::vector<int64_t> mostAlive(const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf, uint32_t stages);

/// Per rank, the weights of its stages, each once.
std::vector<int64_t> weightsOf(const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf, uint32_t ranks);

/// Seconds of the longest chain of operations that wait for each other, each where it is fastest.
double longestChain(const StageGraph &graph);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_STAGEAMOUNTS_H
