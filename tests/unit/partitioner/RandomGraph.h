//===- RandomGraph.h - Seeded graphs for the property tests -----*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_PARTITIONER_RANDOMGRAPH_H
#define CLEAVE_TESTS_UNIT_PARTITIONER_RANDOMGRAPH_H

#include "partitioner/cutting/StageCutter.h"
#include "tests/unit/Dice.h"
#include <algorithm>

namespace cleave {

/// A DAG with skips, shared weights, nodes of time 0, and equal times. Times are whole numbers, so that sums
/// are exact.
inline StageGraph randomGraph(Dice &dice, uint32_t nodes) {
  StageGraph graph;
  for (uint32_t weight = 0, count = dice.below(4); weight < count; ++weight)
    graph.weightBytes.push_back(dice.below(9));
  for (uint32_t node = 0; node < nodes; ++node) {
    graph.nodes.push_back({"op" + std::to_string(node), double(dice.below(8)), {}});
    for (uint32_t weight = 0; weight < graph.weightBytes.size(); ++weight)
      if (dice.below(3) == 0)
        graph.nodes[node].weights.push_back(weight);
  }
  const uint32_t values = 1 + dice.below(7);
  for (uint32_t node = 0; node + 1 < nodes; ++node) {
    if (dice.below(1 + values) == 0)
      continue;
    StageGraph::Value value{node, dice.below(6), {}};
    for (uint32_t draw = 0, count = 1 + dice.below(3); draw < count; ++draw)
      value.consumers.push_back(node + 1 + dice.below(nodes - node - 1));
    graph.values.push_back(value);
  }
  return graph;
}

/// Gives the graph one to three more kinds of devices: either all nodes scaled by one factor, or random times
/// for each node.
inline void addKinds(Dice &dice, StageGraph &graph) {
  for (uint32_t kind = 0, count = 1 + dice.below(3); kind < count; ++kind) {
    const bool isFactor = dice.below(2);
    // A power of two, for exact quotients.
    const double slowness = 0.5 * (1u << dice.below(3));
    for (StageGraph::Node &node : graph.nodes)
      node.onOtherKinds.push_back(isFactor ? node.seconds * slowness : double(dice.below(8)));
  }
}

/// Stages, each with a kind of device, a link and a weight limit of its own or all with the same, and at
/// times no limits; and fixed starts. Both may leave no cut at all. The kinds of devices are the graph's.
inline CutRequest randomRequest(Dice &dice, const StageGraph &graph) {
  const uint32_t nodes = graph.nodes.size();
  CutRequest request;
  request.stages.resize(1 + dice.below(std::min(nodes, 5u)));
  const bool isLimited = dice.below(2), hasOneLink = dice.below(2), hasOneKind = dice.below(2),
             hasOneLimit = dice.below(2);
  for (StageDevice &stage : request.stages) {
    // Powers of two, for exact quotients.
    stage.link = {double(dice.below(3)), double(1u << dice.below(3))};
    if (isLimited)
      stage.weightLimit = dice.below(20);
    stage.kind = dice.below(graph.kinds());
    const StageDevice &first = request.stages.front();
    stage = {hasOneLink ? first.link : stage.link, hasOneLimit ? first.weightLimit : stage.weightLimit,
             hasOneKind ? first.kind : stage.kind};
  }
  for (uint32_t node = 0; node < nodes; ++node)
    if (dice.below(nodes) == 0)
      request.stageStarts.push_back(node);
  return request;
}

/// Nodes of `seconds`, each feeding the next with one byte.
inline StageGraph chain(const std::vector<double> &seconds) {
  StageGraph graph;
  for (uint32_t node = 0; node < seconds.size(); ++node) {
    graph.nodes.push_back({"op" + std::to_string(node), seconds[node], {}});
    if (node > 0)
      graph.values.push_back({node - 1, 1, {node}});
  }
  return graph;
}

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_PARTITIONER_RANDOMGRAPH_H
