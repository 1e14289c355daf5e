//===- GroupGraph.h - Input of a search over downsets -----------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_GRAPH_GROUPGRAPH_H
#define CLEAVE_PARTITIONER_GRAPH_GROUPGRAPH_H

#include <cstdint>
#include <vector>

namespace cleave {

/// Sums added in another order differ at most by this factor; values within it count as equal.
inline constexpr double kRoundingFactor = 1 + 1e-9;

/// Groups of nodes that must share a device, in topological order, and the nets that connect them. A device
/// pays for a net once, however many of the net's groups it has.
struct GroupGraph {
  struct Group {
    /// `acceleratorLatency`: latency on accelerators of the first kind.
    double acceleratorLatency = 0, cpuLatency = 0, size = 0;
    bool isSupported = true;
    /// Which part of program order between fixed stage starts (CutRequest::stageStarts) it is in. A device
    /// holds groups of one segment only.
    uint32_t segment = 0;
    /// Latencies on accelerators of the second and further kinds; as many for every group.
    std::vector<double> otherLatencies = {};

    double latencyOn(uint32_t kind) const {
      return kind == 0 ? acceleratorLatency : otherLatencies[kind - 1];
    }
  };
  /// A value with the groups that make or read it, or a weight with the groups that read it; two groups at
  /// least.
  struct Net {
    /// Cost of moving the value over the boundary of a device that has some of the groups but not all.
    double cost = 0;
    /// Size on each device that has some of the groups.
    double size = 0;
    std::vector<uint32_t> groups;
  };
  std::vector<Group> groups;
  /// By group: groups, ascending.
  std::vector<std::vector<uint32_t>> successors, predecessors;
  std::vector<Net> nets;
  /// By group: indices into `nets`.
  std::vector<std::vector<uint32_t>> netsOf;
  /// By node of the problem: its group.
  std::vector<uint32_t> groupOf;

  /// Number of kinds of accelerators.
  uint32_t kinds() const { return groups.empty() ? 1 : 1 + groups.front().otherLatencies.size(); }
};

/// Group g of the result is the union of the groups that `mergedOf` maps to g.
///
/// \param graph     only its `groups`, `successors` and `nets` are read. They may contain repeated entries in
/// any order, and cycles that lie within one merged group.
/// \param mergedOf  by group of `graph`; uses all numbers from 0 on.
GroupGraph mergeGroups(const GroupGraph &graph, const std::vector<uint32_t> &mergedOf);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_GRAPH_GROUPGRAPH_H
