//===- LinearPlacement.cpp - Placements along linear orders ---------------===//
#include "partitioner/LinearPlacement.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace cleave {

static constexpr double kNever = std::numeric_limits<double>::infinity();

static std::vector<uint32_t> countPredecessors(const ColourGraph &graph) {
  std::vector<uint32_t> counts;
  for (const std::vector<uint32_t> &predecessors : graph.predecessors)
    counts.push_back(predecessors.size());
  return counts;
}

/// Groups are ready in the order in which what precedes them was; `contract` numbers them depth first.
static std::vector<uint32_t> breadthFirst(const ColourGraph &graph) {
  std::vector<uint32_t> order, waitsFor = countPredecessors(graph);
  for (uint32_t group = 0; group < waitsFor.size(); ++group)
    if (waitsFor[group] == 0)
      order.push_back(group);
  for (size_t at = 0; at < order.size(); ++at)
    for (uint32_t after : graph.successors[order[at]])
      if (--waitsFor[after] == 0)
        order.push_back(after);
  return order;
}

/// The largest ready group that fits in what is left of an accelerator, or the largest of all on a new one.
static std::vector<uint32_t> largestFirst(const ColourGraph &graph, double sizeLimit) {
  // Sizes are negative, so that large ones come first.
  std::set<std::pair<double, uint32_t>> ready;
  std::vector<uint32_t> order, waitsFor = countPredecessors(graph);
  for (uint32_t group = 0; group < waitsFor.size(); ++group)
    if (waitsFor[group] == 0)
      ready.insert({-graph.groups[group].size, group});
  double room = sizeLimit;
  while (!ready.empty()) {
    auto next = ready.lower_bound({-room, 0});
    if (next == ready.end()) {
      next = ready.begin();
      room = sizeLimit;
    }
    const uint32_t group = next->second;
    ready.erase(next);
    room -= graph.groups[group].size;
    order.push_back(group);
    for (uint32_t after : graph.successors[group])
      if (--waitsFor[after] == 0)
        ready.insert({-graph.groups[after].size, after});
  }
  return order;
}

static double maxLoadOf(const ColourGraph &graph, const PlacementFound &found) {
  std::vector<double> loads(found.isCpu.size(), 0);
  for (uint32_t group = 0; group < graph.groups.size(); ++group) {
    const uint32_t device = found.deviceOf[group];
    loads[device] +=
        found.isCpu[device] ? graph.groups[group].cpuLatency : graph.groups[group].acceleratorLatency;
  }
  for (const ColourGraph::Net &net : graph.nets) {
    std::set<uint32_t> payers;
    for (uint32_t group : net.groups)
      payers.insert(found.deviceOf[group]);
    for (uint32_t payer : payers)
      if (payers.size() > 1 && !found.isCpu[payer])
        loads[payer] += net.cost;
  }
  return *llvm::max_element(loads);
}

/// Devices filled one after the other, accelerators first, each with what comes next in `order` while it has
/// room and its compute is at most `bound`. Nothing when something is left over.
static std::optional<PlacementFound> fill(const ColourGraph &graph, const DeviceCounts &devices,
                                          const std::vector<uint32_t> &order, double bound) {
  PlacementFound found;
  found.deviceOf.resize(graph.groups.size());
  uint32_t acceleratorsLeft = devices.accelerators, cpusLeft = devices.cpus;
  ColourGraph::Group inside;
  for (uint32_t group : order) {
    const ColourGraph::Group &own = graph.groups[group];
    auto takes = [&](bool isCpu) {
      if (isCpu)
        return inside.cpuLatency + own.cpuLatency <= bound;
      return own.isSupported && inside.size + own.size <= devices.sizeLimit &&
             inside.acceleratorLatency + own.acceleratorLatency <= bound;
    };
    if (found.isCpu.empty() || !takes(found.isCpu.back())) {
      inside = {};
      const bool isCpu = acceleratorsLeft == 0 || !takes(/*isCpu=*/false);
      if (isCpu && (cpusLeft == 0 || !takes(/*isCpu=*/true)))
        return std::nullopt;
      --(isCpu ? cpusLeft : acceleratorsLeft);
      found.isCpu.push_back(isCpu);
    }
    inside.acceleratorLatency += own.acceleratorLatency;
    inside.cpuLatency += own.cpuLatency;
    inside.size += own.size;
    found.deviceOf[group] = found.isCpu.size() - 1;
  }
  found.maxLoad = maxLoadOf(graph, found);
  return found;
}

/// Most graphs balance well, so that loads far above the lower bound need no look; but communication or room
/// may decide.
std::optional<PlacementFound> linearise(const ColourGraph &graph, const DeviceCounts &devices,
                                        double lowerBound, uint64_t &work) {
  std::vector<uint32_t> depthFirst(graph.groups.size());
  std::iota(depthFirst.begin(), depthFirst.end(), 0);
  const std::vector<uint32_t> orders[] = {depthFirst, breadthFirst(graph),
                                          largestFirst(graph, devices.sizeLimit)};
  const double bounds[] = {1.2 * lowerBound, 2 * lowerBound, 16 * lowerBound, kNever};
  std::optional<PlacementFound> best;
  for (const std::vector<uint32_t> &order : orders)
    for (double bound : bounds)
      if (auto found = fill(graph, devices, order, bound); found && (!best || found->maxLoad < best->maxLoad))
        best = std::move(found);
  for (const std::vector<uint32_t> &order : orders) {
    const DownsetLattice lattice = DownsetLattice::chain(order);
    PlacementSearch search(graph, devices, lattice);
    for (double bound : bounds) {
      if (auto found = search.run(best ? std::min(bound, best->maxLoad) : bound, work)) {
        best = std::move(found);
        break;
      }
      if (best && best->maxLoad <= bound)
        break;
    }
  }
  return best;
}

} // namespace cleave
