//===- GroupGraph.cpp - Input of a search over downsets -------------------===//
#include "partitioner/graph/GroupGraph.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>

namespace cleave {

static void sortUnique(std::vector<uint32_t> &list) {
  llvm::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

/// Nets of the same groups become one; a net of one group only adds to that group's size.
static void joinNets(const GroupGraph &nodes, GroupGraph &graph) {
  std::map<std::vector<uint32_t>, GroupGraph::Net> byGroups;
  for (const GroupGraph::Net &net : nodes.nets) {
    std::vector<uint32_t> ends;
    for (uint32_t node : net.groups)
      ends.push_back(graph.groupOf[node]);
    sortUnique(ends);
    if (ends.size() == 1) {
      graph.groups[ends.front()].size += net.size;
    } else if (ends.size() > 1 && (net.cost > 0 || net.size > 0)) {
      GroupGraph::Net &joined = byGroups[std::move(ends)];
      joined.cost += net.cost;
      joined.size += net.size;
    }
  }
  for (auto &[ends, net] : byGroups) {
    for (uint32_t group : ends)
      graph.netsOf[group].push_back(graph.nets.size());
    graph.nets.push_back({net.cost, net.size, ends});
  }
}

GroupGraph join(const GroupGraph &nodes, const std::vector<uint32_t> &groupOf) {
  GroupGraph graph;
  const uint32_t groups = groupOf.empty() ? 0 : *llvm::max_element(groupOf) + 1;
  graph.groups.resize(groups);
  graph.successors.resize(groups);
  graph.predecessors.resize(groups);
  graph.netsOf.resize(groups);
  graph.groupOf = groupOf;
  for (uint32_t node = 0; node < groupOf.size(); ++node) {
    const GroupGraph::Group &from = nodes.groups[node];
    GroupGraph::Group &group = graph.groups[groupOf[node]];
    group.acceleratorLatency += from.acceleratorLatency;
    group.cpuLatency += from.cpuLatency;
    group.otherLatencies.resize(from.otherLatencies.size());
    for (auto [sum, latency] : llvm::zip(group.otherLatencies, from.otherLatencies))
      sum += latency;
    group.size += from.size;
    group.isSupported &= from.isSupported;
    group.segment = from.segment;
    for (uint32_t after : nodes.successors[node])
      if (groupOf[node] != groupOf[after]) {
        graph.successors[groupOf[node]].push_back(groupOf[after]);
        graph.predecessors[groupOf[after]].push_back(groupOf[node]);
      }
  }
  llvm::for_each(graph.successors, sortUnique);
  llvm::for_each(graph.predecessors, sortUnique);
  joinNets(nodes, graph);
  return graph;
}

} // namespace cleave
