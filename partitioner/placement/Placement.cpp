//===- Placement.cpp - Exact device placement of nodes --------------------===//
#include "partitioner/placement/Placement.h"

#include "partitioner/cutting/LinearPlacement.h"
#include "partitioner/machine/MakeError.h"
#include "partitioner/placement/ColourContraction.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include <algorithm>
#include <cmath>

using llvm::Error;
using llvm::Expected;

namespace cleave {

static constexpr double kNever = std::numeric_limits<double>::infinity();
/// Limit of the nodes that a message names.
static constexpr size_t kMaxNamed = 4;

/// Loads by their definition, from nodes and edges.
static Placement describe(const PlacementProblem &problem, const GroupGraph &graph,
                          const DeviceAssignment &found) {
  std::vector<DeviceLoad> devices(found.isCpu.size());
  auto deviceOf = [&](uint32_t node) { return found.deviceOf[graph.groupOf[node]]; };
  std::vector<std::vector<uint32_t>> receivers(problem.nodes.size());
  for (const PlacementProblem::Edge &edge : problem.edges)
    if (deviceOf(edge.source) != deviceOf(edge.target))
      receivers[edge.source].push_back(deviceOf(edge.target));
  for (uint32_t node = 0; node < problem.nodes.size(); ++node) {
    const PlacementProblem::Node &from = problem.nodes[node];
    DeviceLoad &device = devices[deviceOf(node)];
    device.nodes.push_back(node);
    device.size += from.size;
    device.load += found.isCpu[deviceOf(node)] ? from.cpuLatency : from.acceleratorLatency;
    std::vector<uint32_t> &payers = receivers[node];
    if (!payers.empty())
      payers.push_back(deviceOf(node));
    llvm::sort(payers);
    payers.erase(std::unique(payers.begin(), payers.end()), payers.end());
    for (uint32_t payer : payers)
      if (!found.isCpu[payer])
        devices[payer].load += from.cost;
  }
  Placement placement;
  for (size_t index = 0; index < devices.size(); ++index) {
    placement.maxLoad = std::max(placement.maxLoad, devices[index].load);
    // Every group has nodes of the problem, so no device is empty.
    (found.isCpu[index] ? placement.cpus : placement.accelerators).push_back(std::move(devices[index]));
  }
  return placement;
}

/// `node 7`, or `nodes 3, 4 (on one device)`.
static std::string nameGroup(const PlacementProblem &problem, const GroupGraph &graph, uint32_t group) {
  std::vector<std::string> ids;
  for (uint32_t node = 0; node < problem.nodes.size() && ids.size() <= kMaxNamed; ++node)
    if (graph.groupOf[node] == group)
      ids.push_back(ids.size() == kMaxNamed ? "…" : std::to_string(problem.nodes[node].id));
  if (ids.size() == 1)
    return "node " + ids.front();
  return "nodes " + llvm::join(ids, ", ") + " (on one device)";
}

/// \param end  how the search ended that found nothing.
static Error nothingFits(const PlacementProblem &problem, const GroupGraph &graph, SearchEnd end) {
  double total = 0;
  for (uint32_t group = 0; group < graph.groups.size(); ++group) {
    const GroupGraph::Group &own = graph.groups[group];
    const std::string name = nameGroup(problem, graph, group);
    total += own.size;
    if (problem.cpus > 0)
      continue;
    if (!own.isSupported)
      return makeError("{0}: not supported on accelerators, and there are no CPUs; set maxCPUs to 1 or more",
                       name);
    if (own.size > problem.sizeLimit * kRoundingFactor)
      return makeError(
          "{0}: found a size of {1}, an accelerator holds {2}; set maxSizePerFPGA to {1} or more, or "
          "maxCPUs to 1 or more",
          name, llvm::format("%.12g", own.size), llvm::format("%.12g", problem.sizeLimit));
  }
  if (problem.cpus == 0 && total > problem.sizeLimit * kRoundingFactor * problem.accelerators)
    return makeError(
        "{0} accelerators hold {1}, the nodes' sizes add up to {2}; use --devices {3} or more",
        problem.accelerators, llvm::format("%.12g", problem.sizeLimit * problem.accelerators),
        llvm::format("%.12g", total),
        static_cast<uint64_t>(std::ceil(std::min(total / (problem.sizeLimit * kRoundingFactor), 1e15))));
  if (end == SearchEnd::Interrupted)
    return makeError("interrupted before a placement was found; let it search longer");
  llvm::StringRef tried = "no contiguous placement", why;
  if (end == SearchEnd::OutOfWork) {
    tried = "no placement that was tried";
    why = ", and trying all takes too many steps";
  } else if (end != SearchEnd::Complete) {
    tried = "no linear order that was tried";
    why = ", and there are too many downsets to try all placements";
  }
  return makeError(
      "{0} keeps each of {1} accelerators within a size of {2}{3}; use --devices {4} or more, or a larger "
      "maxSizePerFPGA",
      tried, problem.accelerators, llvm::format("%.12g", problem.sizeLimit), why, problem.accelerators + 1);
}

static Error check(const PlacementProblem &problem, const GroupGraph &graph, const DeviceRow &devices) {
  if (problem.nodes.empty() || problem.accelerators + uint64_t(problem.cpus) == 0)
    return makeError(
        "found {0} nodes, {1} accelerators and {2} CPUs, expected a node and a device at least; give some",
        problem.nodes.size(), problem.accelerators, problem.cpus);
  if (devices.statesOf(graph.groups.size() + 1) > kMaxSearchStates)
    return makeError(
        "found {0} groups of nodes for {1} accelerators and {2} CPUs, expected a product of at most {3}; "
        "use fewer devices",
        graph.groups.size(), devices.accelerators.size(), devices.cpus, kMaxSearchStates);
  return Error::success();
}

/// Searches all downsets if there are not too many, otherwise only along linear orders, with half of the
/// work.
static SearchOutcome search(const GroupGraph &graph, const DeviceRow &devices, double lowerBound,
                            uint64_t mostDownsets, uint64_t &work) {
  uint64_t share = work / 2;
  work -= share;
  auto linear = linearise(graph, devices, lowerBound, share);
  work += share;
  SearchOutcome outcome = searchAll(graph, devices, linear ? linear->maxLoad : kNever, mostDownsets, work);
  if (!outcome.found)
    outcome.found = std::move(linear);
  return outcome;
}

/// For graphs with too many downsets and limited memory: nodes that take no time stay with their neighbour,
/// whatever memory they take. `lowerBound` becomes the optimum without memory limits, for which that is
/// exact, and `graph` the contraction.
static SearchOutcome searchJoined(const PlacementProblem &problem, const DeviceRow &devices,
                                  uint64_t mostDownsets, uint64_t &work, GroupGraph &graph,
                                  double &lowerBound) {
  PlacementProblem lighter = problem;
  for (PlacementProblem::Node &node : lighter.nodes)
    if (node.acceleratorLatency == 0 && node.cpuLatency == 0)
      node.size = 0;
  graph = contract(lighter);
  const SearchOutcome relaxed = search(graph, devices, lowerBound, mostDownsets, work);
  if (relaxed.end != SearchEnd::Complete || !relaxed.found)
    return {};
  lowerBound = std::max(lowerBound, relaxed.found->maxLoad);
  for (uint32_t node = 0; node < problem.nodes.size(); ++node)
    graph.groups[graph.groupOf[node]].size += problem.nodes[node].size - lighter.nodes[node].size;
  return search(graph, devices, lowerBound, mostDownsets, work);
}

Expected<Placement> place(const PlacementProblem &problem, const SearchLimits &limits) {
  GroupGraph graph = contract(problem);
  // With more devices than groups, some would stay empty.
  const uint32_t groups = graph.groups.size();
  const DeviceRow devices{std::vector<DeviceRow::Accelerator>(std::min(problem.accelerators, groups),
                                                              {problem.sizeLimit * kRoundingFactor}),
                          std::min(problem.cpus, groups)};
  if (Error error = check(problem, graph, devices))
    return error;
  double lowerBound = lowerBoundOf(graph, devices);
  if (lowerBound == kNever)
    return nothingFits(problem, graph, SearchEnd::Complete);
  uint64_t work = limits.work;
  SearchOutcome best = search(graph, devices, lowerBound, limits.downsets, work);
  if (best.downsets == 0) {
    GroupGraph joined;
    SearchOutcome other = searchJoined(problem, devices, limits.downsets, work, joined, lowerBound);
    best.downsets = other.downsets;
    if (other.found && (!best.found || other.found->maxLoad < best.found->maxLoad)) {
      best.found = std::move(other.found);
      graph = std::move(joined);
    }
  }
  if (!best.found)
    return nothingFits(problem, graph, best.end);
  Placement placement = describe(problem, graph, *best.found);
  placement.end =
      best.end != SearchEnd::Complete && CancellationScope::isRequested() ? SearchEnd::Interrupted : best.end;
  placement.downsets = best.downsets;
  placement.isExact = best.end == SearchEnd::Complete || placement.maxLoad <= lowerBound * kRoundingFactor;
  placement.lowerBound = placement.isExact ? placement.maxLoad : std::min(lowerBound, placement.maxLoad);
  return placement;
}

} // namespace cleave
