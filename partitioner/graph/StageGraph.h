//===- StageGraph.h - A model as the stage cutter sees it -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_GRAPH_STAGEGRAPH_H
#define CLEAVE_PARTITIONER_GRAPH_STAGEGRAPH_H

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// A weighted DAG. Nodes are numbered in a topological order (program order), which also breaks every tie.
struct StageGraph {
  struct Node {
    /// For messages: operator and module path, `aten.linear at lm_head`.
    std::string label;
    /// Compute seconds on a device of the first kind.
    double seconds = 0;
    /// Weights it reads, as indices into `weightBytes`; a weight counts once a stage.
    std::vector<uint32_t> weights;
    /// On devices of the second kind and on; of each node as many.
    std::vector<double> onOtherKinds = {};

    double secondsOn(uint32_t kind) const { return kind == 0 ? seconds : onOtherKinds[kind - 1]; }
    /// On the kind that is fastest at it.
    double leastSeconds() const;
  };
  /// A value that may cross a cut; sent once to each stage that uses it and does not make it.
  struct Value {
    uint32_t producer;
    int64_t bytes = 0;
    std::vector<uint32_t> consumers;
  };
  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<int64_t> weightBytes;

  /// Of devices, that nodes have seconds on.
  uint32_t kinds() const { return nodes.empty() ? 1 : 1 + nodes.front().onOtherKinds.size(); }
};

inline double StageGraph::Node::leastSeconds() const {
  double least = seconds;
  for (double other : onOtherKinds)
    least = std::min(least, other);
  return least;
}

} // namespace cleave

#endif // CLEAVE_PARTITIONER_GRAPH_STAGEGRAPH_H
