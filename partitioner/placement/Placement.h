//===- Placement.h - Exact device placement of nodes ------------*- C++ -*-===//
//
// The problem and the solver of Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph
// Operators", NeurIPS 2020, section 5.1 and appendix A. The solver minimises the load of the busiest device
// over all contiguous placements, by dynamic programming over the graph's downsets (ideals).
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PARTITIONER_PLACEMENT_PLACEMENT_H
#define CLEAVE_PARTITIONER_PLACEMENT_PLACEMENT_H

#include "partitioner/graph/SearchLimits.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <vector>

namespace cleave {

/// A weighted graph and the devices that run it. Latencies, costs and loads have one unit, the caller's.
struct PlacementProblem {
  struct Node {
    /// Name in messages.
    int64_t id = 0;
    double acceleratorLatency = 0, cpuLatency = 0;
    /// Bytes.
    double size = 0;
    /// Cost of moving the node's output to or from one accelerator.
    double cost = 0;
    /// Nodes of one colour, from 0 to nodes - 1, run on one device.
    uint32_t colour = 0;
    bool isBackward = false;
    bool isSupported = true;
  };
  struct Edge {
    uint32_t source, target;
  };
  std::vector<Node> nodes;
  /// Acyclic, and no edge goes from a backward node to a forward one.
  std::vector<Edge> edges;
  uint32_t accelerators = 1, cpus = 0;
  /// Bytes of memory of one accelerator.
  double sizeLimit = 0;
};

/// A device that has nodes.
struct DeviceLoad {
  /// For a CPU, the sum of its nodes' latencies. For an accelerator, that sum plus, once, the cost of every
  /// node, inside or outside, that has an edge over the device's boundary.
  double load = 0;
  double size = 0;
  /// Ascending.
  std::vector<uint32_t> nodes;
};

struct Placement : SearchProof {
  /// In the order of forward edges; devices without nodes are left out.
  std::vector<DeviceLoad> accelerators, cpus;
  double maxLoad = 0;
  /// No contiguous placement has a smaller maxLoad. Equal to maxLoad if the placement is exact.
  double lowerBound = 0;

  /// Relative optimality gap, (maxLoad - lowerBound) / maxLoad.
  double gap() const { return maxLoad > 0 ? (maxLoad - lowerBound) / maxLoad : 0; }
};

/// Finds the contiguous placement with the smallest maxLoad. In a contiguous placement the forward graph,
/// with each device contracted, has no cycle. The forward graph is that of the forward nodes; backward nodes
/// follow their colour. As in the published solver, a colour with backward nodes only is also in it, by its
/// backward edges reversed.
///
/// Beyond `limits.downsets`, nodes that take no time stay with their neighbour, whatever memory they take; if
/// there are still too many downsets, the result is the best cut along linear orders.
///
/// Time, at worst and within `limits`: pairs of downsets times edges at a node and devices of each kind.
/// Memory: downsets times devices of each kind.
///
/// Once a placement is found, CancellationScope may end the search.
///
/// \returns an error if nothing fits; if there are too many downsets and no linear order fits (the message
/// says that another placement may); or if (nodes + 1) (accelerators + 1) (cpus + 1) > kMaxSearchStates.
llvm::Expected<Placement> place(const PlacementProblem &problem, const SearchLimits &limits = {});

} // namespace cleave

#endif // CLEAVE_PARTITIONER_PLACEMENT_PLACEMENT_H
