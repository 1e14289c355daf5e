//===- JoinedNodes.h - Nodes that share a stage -----------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_GRAPH_JOINEDNODES_H
#define CLEAVE_PARTITIONER_GRAPH_JOINEDNODES_H

#include "partitioner/graph/StageGraph.h"
#include "llvm/ADT/ArrayRef.h"
#include <utility>
#include <vector>

namespace cleave {

/// By node: its group. Nodes of a pair are in one group, and so are nodes between two nodes of a group, since
/// values flow to later stages only. Groups are numbered in a topological order; of those that may come next,
/// the one with the least `progress` of any of its nodes does.
/// \param progress  by node: where in its own program it stands, 0 to 1.
std::vector<uint32_t> joinNodes(const StageGraph &graph, llvm::ArrayRef<std::pair<uint32_t, uint32_t>> pairs,
                                llvm::ArrayRef<double> progress);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_GRAPH_JOINEDNODES_H
