//===- Placement.h - Which device runs which node, exactly ------*- C++ -*-===//
//
// The problem and the solver of Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph
// Operators", NeurIPS 2020, section 5.1 and appendix A: the smallest load of the busiest device over all
// contiguous placements, by dynamic programming over the graph's downsets (ideals).
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PARTITIONER_PLACEMENT_PLACEMENT_H
#define CLEAVE_PARTITIONER_PLACEMENT_PLACEMENT_H

#include "partitioner/graph/SearchLimits.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <vector>

namespace cleave {

/// A weighted graph and the devices that it is to run on. Latencies, costs and loads are of one unit, the
/// caller's.
struct PlacementProblem {
  struct Node {
    /// For messages.
    int64_t id = 0;
    double acceleratorLatency = 0, cpuLatency = 0;
    /// Bytes.
    double size = 0;
    /// Of moving what it makes to or from one accelerator.
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
  /// Without a cycle, and none from a backward node to a forward one.
  std::vector<Edge> edges;
  uint32_t accelerators = 1, cpus = 0;
  /// Bytes that one accelerator holds.
  double sizeLimit = 0;
};

/// One device that has nodes.
struct DeviceLoad {
  /// Of an accelerator: the latencies of its nodes, and once the cost of every node, inside or outside, that
  /// has an edge over the device's boundary. Of a CPU: the latencies.
  double load = 0;
  double size = 0;
  /// Ascending.
  std::vector<uint32_t> nodes;
};

struct Placement : SearchProof {
  /// In the order in which forward edges go; a device without nodes is left out.
  std::vector<DeviceLoad> accelerators, cpus;
  double maxLoad = 0;
  /// No contiguous placement has a smaller maxLoad than this; equal to it when it is exact.
  double lowerBound = 0;

  /// (maxLoad - lowerBound) / maxLoad.
  double gap() const { return maxLoad > 0 ? (maxLoad - lowerBound) / maxLoad : 0; }
};

/// A placement whose forward graph, devices contracted, has no cycle, and whose largest load is smallest:
/// exactly, as far as `limits` go. The forward graph is that of the forward nodes; backward nodes follow
/// their colour. A colour of backward nodes only stands in it, too, by its backward edges turned around, as
/// in the published solver.
///
/// Beyond `limits.downsets`, nodes without time stay with the neighbour they hang on, whatever room they
/// take, and when these are still too many, the best cut of linear orders is given.
///
/// Time: pairs of downsets times edges at a node and devices of each kind, at worst, as far as `limits` go;
/// memory: downsets times devices of each kind.
///
/// Where there is a placement, the search ends as CancellationScope says.
///
/// \returns an error when nothing fits; when there are too many downsets and no linear order that was tried
/// fits, though something else may, which the error says; or when (nodes + 1) (accelerators + 1) (cpus + 1) >
/// kMostSearchStates.
llvm::Expected<Placement> place(const PlacementProblem &problem, const SearchLimits &limits = {});

} // namespace cleave

#endif // CLEAVE_PARTITIONER_PLACEMENT_PLACEMENT_H
