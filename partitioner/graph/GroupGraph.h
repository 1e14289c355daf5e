//===- GroupGraph.h - What a search over downsets looks at ------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_GRAPH_GROUPGRAPH_H
#define CLEAVE_PARTITIONER_GRAPH_GROUPGRAPH_H

#include <cstdint>
#include <vector>

namespace cleave {

/// Sums in another order differ by rounding: what is within this factor is equal.
inline constexpr double kRounding = 1 + 1e-9;

/// Groups of a problem's nodes that share a device, in topological order, and what devices pay for once,
/// however many of the groups that have to do with it they have.
struct GroupGraph {
  struct Group {
    /// `acceleratorLatency`: on accelerators of the first kind.
    double acceleratorLatency = 0, cpuLatency = 0, size = 0;
    bool isSupported = true;
    /// No device has groups of two segments.
    uint32_t segment = 0;
    /// On accelerators of the second kind and on; of each group as many.
    std::vector<double> otherLatencies = {};

    double latencyOn(uint32_t kind) const {
      return kind == 0 ? acceleratorLatency : otherLatencies[kind - 1];
    }
  };
  /// A value and the groups that make or read it, or a weight and those that read it; two at least.
  struct Net {
    /// Of taking it over a device's boundary, which has some of the groups but not all.
    double cost = 0;
    /// Taken on each device that has some of the groups.
    double size = 0;
    std::vector<uint32_t> groups;
  };
  std::vector<Group> groups;
  /// Ascending.
  std::vector<std::vector<uint32_t>> successors, predecessors;
  std::vector<Net> nets;
  /// By group, indices into `nets`.
  std::vector<std::vector<uint32_t>> netsOf;
  /// By node of the problem.
  std::vector<uint32_t> groupOf;

  /// Of accelerators, that groups have latencies on.
  uint32_t kinds() const { return groups.empty() ? 1 : 1 + groups.front().otherLatencies.size(); }
};

/// The graph whose groups are sets of those of `nodes`, by number without gaps.
///
/// \param nodes  its `groups`, `successors` and `nets` count; they may repeat entries in any order, and
/// cycles do not
///               matter where `groupOf` makes them one group.
GroupGraph join(const GroupGraph &nodes, const std::vector<uint32_t> &groupOf);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_GRAPH_GROUPGRAPH_H
