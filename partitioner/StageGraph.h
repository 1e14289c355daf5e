//===- StageGraph.h - A model as the stage cutter sees it -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_STAGEGRAPH_H
#define CLEAVE_PARTITIONER_STAGEGRAPH_H

#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// A weighted DAG. Nodes are numbered in a topological order (program order), which also breaks every tie.
struct StageGraph {
  struct Node {
    /// For messages: operator and module path, `aten.linear at lm_head`.
    std::string label;
    /// Compute seconds on one device of the machine.
    double seconds = 0;
    /// Weights it reads, as indices into `weightBytes`; a weight counts once a stage.
    std::vector<uint32_t> weights;
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
};

/// The link between two stages' devices.
struct Link {
  double latencySeconds = 0;
  double bytesPerSecond = 1;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_STAGEGRAPH_H
