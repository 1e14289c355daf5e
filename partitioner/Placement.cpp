//===- Placement.cpp - Which device runs which node, exactly --------------===//
#include "partitioner/Placement.h"

#include "partitioner/PlacementSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using llvm::Error;
using llvm::Expected;

namespace cleave {

/// Sums in another order differ by rounding; loads this close are equal.
static constexpr double kRounding = 1 + 1e-9;
static constexpr double kNever = std::numeric_limits<double>::infinity();
/// Nodes that a message names.
static constexpr size_t kMostNamed = 4;

namespace {

/// What a search came to.
struct Outcome {
  std::optional<PlacementFound> found;
  /// 0 where they were too many.
  uint64_t downsets = 0;
  bool isProven = false;
};

} // namespace

template <typename... Parts> static Error failure(const char *format, Parts &&...parts) {
  return llvm::createStringError(llvm::formatv(format, std::forward<Parts>(parts)...).str());
}

/// By the group alone: the faster device that takes it.
static double leastTime(const ColourGraph::Group &group, const DeviceCounts &devices) {
  const bool onAccelerator = devices.accelerators > 0 && group.isSupported && group.size <= devices.sizeLimit;
  return std::min(onAccelerator ? group.acceleratorLatency : kNever,
                  devices.cpus > 0 ? group.cpuLatency : kNever);
}

/// Of any contiguous placement's largest load: no group is faster than on its faster device, and all devices
/// together do all the work, where a second of a CPU saves accelerators `exchange` seconds at most.
static double lowerBoundOf(const ColourGraph &graph, const DeviceCounts &devices) {
  double bound = 0, work = 0, cpuWork = 0, exchange = 0;
  for (const ColourGraph::Group &group : graph.groups) {
    bound = std::max(bound, leastTime(group, devices));
    if (!group.isSupported || devices.accelerators == 0) {
      cpuWork += group.cpuLatency;
    } else if (group.acceleratorLatency > 0) {
      work += group.acceleratorLatency;
      exchange = std::max(exchange, group.acceleratorLatency / group.cpuLatency);
    }
  }
  if (devices.cpus == 0)
    exchange = 0;
  if (work > 0 && std::isfinite(exchange))
    bound = std::max(bound, work / (devices.accelerators + devices.cpus * exchange));
  return cpuWork > 0 ? std::max(bound, cpuWork / devices.cpus) : bound;
}

/// Groups are ready in the order in which what precedes them was; `contract` numbers them depth first.
static std::vector<uint32_t> breadthFirst(const ColourGraph &graph) {
  std::vector<uint32_t> order, waitsFor;
  for (uint32_t group = 0; group < graph.groups.size(); ++group) {
    waitsFor.push_back(graph.predecessors[group].size());
    if (waitsFor.back() == 0)
      order.push_back(group);
  }
  for (size_t at = 0; at < order.size(); ++at)
    for (uint32_t after : graph.successors[order[at]])
      if (--waitsFor[after] == 0)
        order.push_back(after);
  return order;
}

/// The best placement along some linear orders. Most graphs balance well, so that loads far above the lower
/// bound need no look; but communication or room may decide.
static std::optional<PlacementFound> linearise(const ColourGraph &graph, const DeviceCounts &devices,
                                               double lowerBound) {
  std::vector<uint32_t> depthFirst(graph.groups.size());
  std::iota(depthFirst.begin(), depthFirst.end(), 0);
  std::optional<PlacementFound> best;
  for (const std::vector<uint32_t> &order : {depthFirst, breadthFirst(graph)}) {
    const DownsetLattice lattice = DownsetLattice::chain(order);
    PlacementSearch search(graph, devices, lattice);
    for (double bound : {1.2 * lowerBound, 2 * lowerBound, 16 * lowerBound, kNever}) {
      uint64_t pairs = UINT64_MAX;
      if (auto found = search.run(best ? std::min(bound, best->maxLoad) : bound, pairs)) {
        best = std::move(found);
        break;
      }
      if (best && best->maxLoad <= bound)
        break;
    }
  }
  return best;
}

/// Loads by the definition, from the nodes and edges themselves.
static Placement describe(const PlacementProblem &problem, const ColourGraph &graph,
                          const PlacementFound &found) {
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
    // Groups that were contracted from none of the problem's nodes do not exist, so that no device is empty.
    (found.isCpu[index] ? placement.cpus : placement.accelerators).push_back(std::move(devices[index]));
  }
  return placement;
}

/// `node 7`, or `nodes 3, 4 (on one device)`.
static std::string nameGroup(const PlacementProblem &problem, const ColourGraph &graph, uint32_t group) {
  std::vector<std::string> ids;
  for (uint32_t node = 0; node < problem.nodes.size() && ids.size() <= kMostNamed; ++node)
    if (graph.groupOf[node] == group)
      ids.push_back(ids.size() == kMostNamed ? "…" : std::to_string(problem.nodes[node].id));
  if (ids.size() == 1)
    return "node " + ids.front();
  return "nodes " + llvm::join(ids, ", ") + " (on one device)";
}

static Error nothingFits(const PlacementProblem &problem, const ColourGraph &graph) {
  double total = 0;
  for (uint32_t group = 0; group < graph.groups.size(); ++group) {
    const ColourGraph::Group &own = graph.groups[group];
    const std::string name = nameGroup(problem, graph, group);
    total += own.size;
    if (problem.cpus > 0)
      continue;
    if (!own.isSupported)
      return failure("{0}: not supported on accelerators, and there are no CPUs; set maxCPUs to 1 or more",
                     name);
    if (own.size > problem.sizeLimit)
      return failure(
          "{0}: found a size of {1}, an accelerator holds {2}; set maxSizePerFPGA to {1} or more, or "
          "maxCPUs to 1 or more",
          name, llvm::format("%.12g", own.size), llvm::format("%.12g", problem.sizeLimit));
  }
  if (problem.cpus == 0 && total > problem.sizeLimit * problem.accelerators)
    return failure("{0} accelerators hold {1}, the nodes' sizes add up to {2}; use --devices {3} or more",
                   problem.accelerators, llvm::format("%.12g", problem.sizeLimit * problem.accelerators),
                   llvm::format("%.12g", total),
                   static_cast<uint64_t>(std::ceil(std::min(total / problem.sizeLimit, 1e15))));
  return failure(
      "no contiguous placement was found that keeps each of {0} accelerators within a size of {1}; use "
      "--devices {2} or more, or a larger maxSizePerFPGA",
      problem.accelerators, llvm::format("%.12g", problem.sizeLimit), problem.accelerators + 1);
}

static uint64_t statesOf(uint64_t downsets, const DeviceCounts &devices) {
  return downsets * (devices.accelerators + 1) * (devices.cpus + 1);
}

static Error check(const PlacementProblem &problem, const ColourGraph &graph, const DeviceCounts &devices) {
  if (problem.nodes.empty() || problem.accelerators + uint64_t(problem.cpus) == 0)
    return failure(
        "found {0} nodes, {1} accelerators and {2} CPUs, expected a node and a device at least; give some",
        problem.nodes.size(), problem.accelerators, problem.cpus);
  if (statesOf(graph.groups.size() + 1, devices) > kMostPlacementStates)
    return failure(
        "found {0} groups of nodes for {1} accelerators and {2} CPUs, expected a product of at most {3}; "
        "use fewer devices",
        graph.groups.size(), devices.accelerators, devices.cpus, kMostPlacementStates);
  return Error::success();
}

/// Over all downsets, if there are not too many, otherwise along linear orders only.
static Outcome search(const ColourGraph &graph, const DeviceCounts &devices, double lowerBound,
                      const PlacementLimits &limits) {
  Outcome outcome;
  outcome.found = linearise(graph, devices, lowerBound);
  const std::optional<DownsetLattice> lattice = DownsetLattice::all(graph, limits.downsets);
  if (!lattice || statesOf(lattice->size(), devices) > kMostPlacementStates)
    return outcome;
  uint64_t pairs = limits.pairs;
  PlacementSearch search(graph, devices, *lattice);
  if (auto better = search.run(outcome.found ? outcome.found->maxLoad : kNever, pairs))
    outcome.found = std::move(better);
  outcome.downsets = lattice->size();
  outcome.isProven = pairs > 0;
  return outcome;
}

/// For too many downsets where room is short: nodes without time stay with their neighbour, whatever room
/// they take. `lowerBound` becomes the optimum for when they take none, in which they lose nothing by that;
/// `graph` the contraction.
static Outcome searchJoined(const PlacementProblem &problem, const DeviceCounts &devices,
                            const PlacementLimits &limits, ColourGraph &graph, double &lowerBound) {
  PlacementProblem lighter = problem;
  for (PlacementProblem::Node &node : lighter.nodes)
    if (node.acceleratorLatency == 0 && node.cpuLatency == 0)
      node.size = 0;
  graph = contract(lighter);
  const Outcome relaxed = search(graph, devices, lowerBound, limits);
  if (!relaxed.isProven || !relaxed.found)
    return {};
  lowerBound = std::max(lowerBound, relaxed.found->maxLoad);
  for (uint32_t node = 0; node < problem.nodes.size(); ++node)
    graph.groups[graph.groupOf[node]].size += problem.nodes[node].size - lighter.nodes[node].size;
  return search(graph, devices, lowerBound, limits);
}

Expected<Placement> place(const PlacementProblem &problem, const PlacementLimits &limits) {
  ColourGraph graph = contract(problem);
  // More devices than groups would stay empty.
  const uint32_t groups = graph.groups.size();
  const DeviceCounts devices{std::min(problem.accelerators, groups), std::min(problem.cpus, groups),
                             problem.sizeLimit};
  if (Error error = check(problem, graph, devices))
    return error;
  double lowerBound = lowerBoundOf(graph, devices);
  if (lowerBound == kNever)
    return nothingFits(problem, graph);
  Outcome best = search(graph, devices, lowerBound, limits);
  if (best.downsets == 0) {
    ColourGraph joined;
    Outcome other = searchJoined(problem, devices, limits, joined, lowerBound);
    best.downsets = other.downsets;
    if (other.found && (!best.found || other.found->maxLoad < best.found->maxLoad)) {
      // Proven among fewer placements only.
      other.isProven = false;
      best = std::move(other);
      graph = std::move(joined);
    }
  }
  if (!best.found)
    return nothingFits(problem, graph);
  Placement placement = describe(problem, graph, *best.found);
  placement.downsets = best.downsets;
  placement.isExact = best.isProven || placement.maxLoad <= lowerBound * kRounding;
  placement.lowerBound = placement.isExact ? placement.maxLoad : std::min(lowerBound, placement.maxLoad);
  return placement;
}

} // namespace cleave
