//===- ColourGraph.h - A placement problem, contracted ----------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_COLOURGRAPH_H
#define CLEAVE_PARTITIONER_COLOURGRAPH_H

#include "partitioner/Placement.h"
#include <cstdint>
#include <vector>

namespace cleave {

/// Sums in another order differ by rounding: what is within this factor is equal.
inline constexpr double kRounding = 1 + 1e-9;

/// What of a placement problem matters to the search: groups of nodes that share a device, in topological
/// order of the forward graph, and what crossing costs.
///
/// The published preparation: colours are contracted, a colour of backward nodes only takes its place by its
/// backward edges turned around, strongly connected colours of the forward graph are fused, and groups that
/// take no time join the neighbour they hang on. The last only where it can never be worse, so that the
/// optimum stays that of the problem: the group has no other neighbour, each value that it makes or reads is
/// one of that neighbour, too, and it takes no room where room is short.
struct ColourGraph {
  struct Group {
    double acceleratorLatency = 0, cpuLatency = 0, size = 0;
    bool isSupported = true;
  };
  /// A value and the groups that make or read it, two at least. An accelerator pays its cost when it has some
  /// of the groups but not all.
  struct Net {
    double cost;
    std::vector<uint32_t> groups;
  };
  std::vector<Group> groups;
  /// Of the forward graph; ascending.
  std::vector<std::vector<uint32_t>> successors, predecessors;
  std::vector<Net> nets;
  /// By group, indices into `nets`.
  std::vector<std::vector<uint32_t>> netsOf;
  /// By node of the problem.
  std::vector<uint32_t> groupOf;
};

ColourGraph contract(const PlacementProblem &problem);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_COLOURGRAPH_H
