//===- GrowingStage.cpp - The cost of a stage, node by node ---------------===//
#include "partitioner/GrowingStage.h"

#include <cassert>

namespace cleave {

GrowingStage::GrowingStage(const StageGraph &graph, const Link &link)
    : graph(graph), link(link), uses(graph.nodes.size()), valueRound(graph.values.size(), 0),
      weightRound(graph.weightBytes.size(), 0) {
  assert(link.bytesPerSecond > 0 && link.latencySeconds >= 0 && "a link takes time, and not forever");
  for (uint32_t value = 0; value < graph.values.size(); ++value) {
    assert(graph.values[value].bytes >= 0 && "a value has a size");
    for (uint32_t consumer : graph.values[value].consumers) {
      assert(consumer > graph.values[value].producer && "nodes are numbered in a topological order");
      uses[consumer].push_back(value);
    }
  }
}

void GrowingStage::startAt(uint32_t node) {
  ++round;
  first = last = node;
  compute = recvSeconds = 0;
  weights = received = 0;
}

void GrowingStage::takeNext() {
  const StageGraph::Node &node = graph.nodes[last];
  assert(node.seconds >= 0 && "costs grow with the stage");
  compute += node.seconds;
  for (uint32_t weight : node.weights)
    if (weightRound[weight] != round) {
      weightRound[weight] = round;
      weights += graph.weightBytes[weight];
    }
  for (uint32_t value : uses[last])
    receive(value);
  ++last;
}

void GrowingStage::receive(uint32_t value) {
  if (graph.values[value].producer >= first || valueRound[value] == round)
    return;
  valueRound[value] = round;
  received += graph.values[value].bytes;
  recvSeconds = link.latencySeconds + static_cast<double>(received) / link.bytesPerSecond;
}

} // namespace cleave
