//===- JoinedNodes.cpp - Nodes that share a stage -------------------------===//
#include "partitioner/graph/JoinedNodes.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>
#include <queue>

namespace cleave {

/// Joins the nodes of pairs, and those on cycles that this makes.
static std::vector<uint32_t> componentsOf(const StageGraph &graph,
                                          llvm::ArrayRef<std::pair<uint32_t, uint32_t>> pairs) {
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS> edges(graph.nodes.size());
  for (const StageGraph::Value &value : graph.values)
    for (uint32_t consumer : value.consumers)
      add_edge(value.producer, consumer, edges);
  // A cycle of two.
  for (auto [a, b] : pairs) {
    add_edge(a, b, edges);
    add_edge(b, a, edges);
  }
  std::vector<uint32_t> component(graph.nodes.size());
  strong_components(edges, component.data());
  return component;
}

std::vector<uint32_t> joinNodes(const StageGraph &graph, llvm::ArrayRef<std::pair<uint32_t, uint32_t>> pairs,
                                llvm::ArrayRef<double> progress) {
  std::vector<uint32_t> groupOf = componentsOf(graph, pairs);
  const size_t count = groupOf.empty() ? 0 : 1 + *std::max_element(groupOf.begin(), groupOf.end());
  std::vector<std::vector<uint32_t>> users(count);
  std::vector<uint32_t> open(count);
  // Ties are broken by the first node.
  std::vector<std::pair<double, uint32_t>> place(count, {2, 0});
  for (uint32_t node = 0; node < groupOf.size(); ++node)
    place[groupOf[node]] = std::min(place[groupOf[node]], {progress[node], node});
  for (const StageGraph::Value &value : graph.values)
    for (uint32_t consumer : value.consumers)
      if (const uint32_t from = groupOf[value.producer], to = groupOf[consumer]; from != to) {
        users[from].push_back(to);
        ++open[to];
      }
  using Next = std::pair<std::pair<double, uint32_t>, uint32_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> ready;
  for (uint32_t group = 0; group < count; ++group)
    if (open[group] == 0)
      ready.push({place[group], group});
  std::vector<uint32_t> number(count);
  for (uint32_t next = 0; !ready.empty(); ++next) {
    const uint32_t group = ready.top().second;
    ready.pop();
    number[group] = next;
    for (uint32_t user : users[group])
      if (--open[user] == 0)
        ready.push({place[user], user});
  }
  for (uint32_t &group : groupOf)
    group = number[group];
  return groupOf;
}

} // namespace cleave
