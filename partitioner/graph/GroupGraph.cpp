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

GroupGraph mergeGroups(const GroupGraph &graph, const std::vector<uint32_t> &mergedOf) {
  GroupGraph merged;
  const uint32_t groups = mergedOf.empty() ? 0 : *llvm::max_element(mergedOf) + 1;
  merged.groups.resize(groups);
  merged.successors.resize(groups);
  merged.predecessors.resize(groups);
  merged.netsOf.resize(groups);
  merged.groupOf = mergedOf;
  for (uint32_t node = 0; node < mergedOf.size(); ++node) {
    const GroupGraph::Group &from = graph.groups[node];
    GroupGraph::Group &group = merged.groups[mergedOf[node]];
    group.acceleratorLatency += from.acceleratorLatency;
    group.cpuLatency += from.cpuLatency;
    group.otherLatencies.resize(from.otherLatencies.size());
    for (auto [sum, latency] : llvm::zip(group.otherLatencies, from.otherLatencies))
      sum += latency;
    group.size += from.size;
    group.isSupported &= from.isSupported;
    group.segment = from.segment;
    for (uint32_t after : graph.successors[node])
      if (mergedOf[node] != mergedOf[after]) {
        merged.successors[mergedOf[node]].push_back(mergedOf[after]);
        merged.predecessors[mergedOf[after]].push_back(mergedOf[node]);
      }
  }
  llvm::for_each(merged.successors, sortUnique);
  llvm::for_each(merged.predecessors, sortUnique);
  joinNets(graph, merged);
  return merged;
}

} // namespace cleave
