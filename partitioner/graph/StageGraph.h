//===- StageGraph.h - The stage cutter's graph of a model -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_GRAPH_STAGEGRAPH_H
#define CLEAVE_PARTITIONER_GRAPH_STAGEGRAPH_H

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// A weighted DAG whose nodes are in a topological order (program order). The order breaks ties.
struct StageGraph {
  struct Node {
    /// For messages: operator and module path, `aten.linear at lm_head`.
    std::string label;
    /// Compute seconds on devices of the first kind.
    double seconds = 0;
    /// Weights that the node reads, as indices into `weightBytes`. A weight counts once per stage.
    std::vector<uint32_t> weights;
    /// Compute seconds on devices of the second and further kinds; as many for every node.
    std::vector<double> onOtherKinds = {};

    double secondsOn(uint32_t kind) const { return kind == 0 ? seconds : onOtherKinds[kind - 1]; }
    /// Compute seconds on the node's fastest kind.
    double minSeconds() const;
  };
  /// A value that may cross a cut. It is sent once to each stage that uses it and did not make it.
  struct Value {
    uint32_t producer;
    int64_t bytes = 0;
    std::vector<uint32_t> consumers;
  };
  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<int64_t> weightBytes;

  /// Number of kinds of devices.
  uint32_t kinds() const { return nodes.empty() ? 1 : 1 + nodes.front().onOtherKinds.size(); }
};

inline double StageGraph::Node::minSeconds() const {
  double least = seconds;
  for (double other : onOtherKinds)
    least = std::min(least, other);
  return least;
}

} // namespace cleave

#endif // CLEAVE_PARTITIONER_GRAPH_STAGEGRAPH_H
