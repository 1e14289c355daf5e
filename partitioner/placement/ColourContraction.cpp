//===- ColourContraction.cpp - Contraction of a placement problem ---------===//
#include "partitioner/placement/ColourContraction.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>
#include <numeric>

namespace cleave {

namespace {

/// The groups while they are contracted: nodes join until nothing more can.
class Contraction {
public:
  explicit Contraction(const PlacementProblem &problem);
  /// Renumbers groups topologically, and fuses groups of a cycle.
  void fuseCycles();
  /// Joins groups that take no time and have a single neighbour. \returns whether there were any.
  bool joinIdle();
  GroupGraph build() const { return mergeGroups(nodes, groupOf); }

private:
  /// Makes `groupOf[g]` the group of all nodes of g.
  void renumber(const std::vector<uint32_t> &newGroup);
  uint32_t hostOf(const GroupGraph &graph, uint32_t group) const;
  bool mayJoin(const GroupGraph &graph, uint32_t group, uint32_t host) const;

  bool isRoomShort;
  /// Nodes of the problem. Edges are the forward edges, and the reversed backward edges of colours without a
  /// forward node.
  GroupGraph nodes;
  uint32_t groups;
  std::vector<uint32_t> groupOf;
};

} // namespace

static constexpr uint32_t kNoHost = UINT32_MAX;

/// Limit of the nodes and edges visited while joining; each round shortens a chain of idle groups by one at
/// each end.
static constexpr size_t kMaxVisits = 5000000;

Contraction::Contraction(const PlacementProblem &problem) {
  double total = 0;
  groups = problem.nodes.size();
  std::vector<bool> hasForward(groups, false);
  nodes.successors.resize(groups);
  for (uint32_t index = 0; index < groups; ++index) {
    const PlacementProblem::Node &node = problem.nodes[index];
    total += node.size;
    groupOf.push_back(node.colour);
    nodes.groups.push_back({node.acceleratorLatency, node.cpuLatency, node.size, node.isSupported});
    nodes.nets.push_back({node.cost, /*size=*/0, {index}});
    if (!node.isBackward)
      hasForward[node.colour] = true;
  }
  isRoomShort = total > problem.sizeLimit * kRoundingFactor;
  for (const PlacementProblem::Edge &edge : problem.edges) {
    const auto &source = problem.nodes[edge.source], &target = problem.nodes[edge.target];
    nodes.nets[edge.source].groups.push_back(edge.target);
    if (!source.isBackward && !target.isBackward)
      nodes.successors[edge.source].push_back(edge.target);
    else if (source.isBackward && target.isBackward &&
             !(hasForward[source.colour] && hasForward[target.colour]))
      nodes.successors[edge.target].push_back(edge.source);
  }
}

void Contraction::renumber(const std::vector<uint32_t> &newGroup) {
  for (uint32_t &group : groupOf)
    group = newGroup[group];
  // Renumbered without gaps, in the same order.
  std::vector<uint32_t> used = groupOf;
  llvm::sort(used);
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (uint32_t &group : groupOf)
    group = llvm::lower_bound(used, group) - used.begin();
  groups = used.size();
}

void Contraction::fuseCycles() {
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS> graph(groups);
  for (uint32_t before = 0; before < groupOf.size(); ++before)
    for (uint32_t after : nodes.successors[before])
      if (groupOf[before] != groupOf[after])
        boost::add_edge(groupOf[before], groupOf[after], graph);
  std::vector<uint32_t> component(groups);
  const auto index = boost::get(boost::vertex_index, graph);
  const uint32_t count =
      boost::strong_components(graph, boost::make_iterator_property_map(component.begin(), index));
  // Tarjan's algorithm closes a component after all its successors.
  for (uint32_t &number : component)
    number = count - 1 - number;
  renumber(component);
}

/// True if moving `group` to its host's device never increases a load. All its nets have the host, so its old
/// device pays for them while the group stays, and the host's device pays for them until it comes.
bool Contraction::mayJoin(const GroupGraph &graph, uint32_t group, uint32_t host) const {
  if (!graph.groups[group].isSupported && graph.groups[host].isSupported)
    return false;
  for (const auto *neighbours : {&graph.predecessors[group], &graph.successors[group]})
    if (llvm::any_of(*neighbours, [&](uint32_t other) { return other != host; }))
      return false;
  return llvm::all_of(graph.netsOf[group],
                      [&](uint32_t net) { return llvm::binary_search(graph.nets[net].groups, host); });
}

uint32_t Contraction::hostOf(const GroupGraph &graph, uint32_t group) const {
  const GroupGraph::Group &own = graph.groups[group];
  if (graph.groups.size() == 1)
    return kNoHost;
  if (own.acceleratorLatency > 0 || own.cpuLatency > 0 || (isRoomShort && own.size > 0))
    return kNoHost;
  llvm::SmallVector<uint32_t, 4> hosts;
  if (!graph.predecessors[group].empty())
    hosts.push_back(graph.predecessors[group].front());
  else if (!graph.successors[group].empty())
    hosts.push_back(graph.successors[group].front());
  else if (!graph.netsOf[group].empty())
    hosts.append(graph.nets[graph.netsOf[group].front()].groups.begin(),
                 graph.nets[graph.netsOf[group].front()].groups.end());
  else
    hosts = {group == 0 ? 1 : 0u};
  for (uint32_t host : hosts)
    if (host != group && mayJoin(graph, group, host))
      return host;
  return kNoHost;
}

bool Contraction::joinIdle() {
  const GroupGraph graph = build();
  std::vector<uint32_t> newGroup(groups);
  std::iota(newGroup.begin(), newGroup.end(), 0);
  // Of two groups that may join each other, one stays. A group that others have joined in this round must be
  // checked again first.
  std::vector<bool> isHost(groups, false);
  bool joined = false;
  for (uint32_t group = 0; group < groups; ++group) {
    const uint32_t host = isHost[group] ? kNoHost : hostOf(graph, group);
    if (host == kNoHost || newGroup[host] != host)
      continue;
    newGroup[group] = host;
    isHost[host] = true;
    joined = true;
  }
  if (joined)
    renumber(newGroup);
  return joined;
}

GroupGraph contract(const PlacementProblem &problem) {
  Contraction contraction(problem);
  contraction.fuseCycles();
  const size_t visits = problem.nodes.size() + problem.edges.size();
  for (size_t visited = 0; visited < kMaxVisits && contraction.joinIdle(); visited += visits)
    ;
  // Groups have grown; restores a topological order.
  contraction.fuseCycles();
  return contraction.build();
}

} // namespace cleave
