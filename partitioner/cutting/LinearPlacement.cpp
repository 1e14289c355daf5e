//===- LinearPlacement.cpp - Placements along linear orders ---------------===//
#include "partitioner/cutting/LinearPlacement.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace cleave {

static constexpr double kNever = std::numeric_limits<double>::infinity();

static std::vector<uint32_t> countPredecessors(const GroupGraph &graph) {
  std::vector<uint32_t> counts;
  for (const std::vector<uint32_t> &predecessors : graph.predecessors)
    counts.push_back(predecessors.size());
  return counts;
}

/// Groups become ready in the order of their predecessors; `contract` numbers groups depth first.
static std::vector<uint32_t> breadthFirst(const GroupGraph &graph) {
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

/// Takes the largest ready group that fits the rest of an accelerator, or the largest of all on a new one.
static std::vector<uint32_t> largestFirst(const GroupGraph &graph, double sizeLimit) {
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

static double maxLoadOf(const GroupGraph &graph, const DeviceAssignment &found) {
  std::vector<double> loads(found.isCpu.size(), 0);
  for (uint32_t group = 0; group < graph.groups.size(); ++group) {
    const uint32_t device = found.deviceOf[group];
    loads[device] +=
        found.isCpu[device] ? graph.groups[group].cpuLatency : graph.groups[group].acceleratorLatency;
  }
  for (const GroupGraph::Net &net : graph.nets) {
    std::set<uint32_t> payers;
    for (uint32_t group : net.groups)
      payers.insert(found.deviceOf[group]);
    for (uint32_t payer : payers)
      if (payers.size() > 1 && !found.isCpu[payer])
        loads[payer] += net.cost;
  }
  return *llvm::max_element(loads);
}

/// Fills devices one after the other, accelerators first, with the next groups of `order` while they fit and
/// the compute is at most `bound`. Nothing if groups are left over.
static std::optional<DeviceAssignment> fill(const GroupGraph &graph, const DeviceRow &devices,
                                            const std::vector<uint32_t> &order, double bound) {
  DeviceAssignment found;
  found.deviceOf.resize(graph.groups.size());
  uint32_t acceleratorsUsed = 0, cpusLeft = devices.cpus;
  GroupGraph::Group inside;
  for (uint32_t group : order) {
    const GroupGraph::Group &own = graph.groups[group];
    auto takes = [&](bool isCpu) {
      if (isCpu)
        return inside.cpuLatency + own.cpuLatency <= bound;
      return own.isSupported && inside.size + own.size <= devices.accelerators.front().sizeLimit &&
             inside.acceleratorLatency + own.acceleratorLatency <= bound;
    };
    if (found.isCpu.empty() || !takes(found.isCpu.back())) {
      inside = {};
      const bool isCpu = acceleratorsUsed == devices.accelerators.size() || !takes(/*isCpu=*/false);
      if (isCpu && (cpusLeft == 0 || !takes(/*isCpu=*/true)))
        return std::nullopt;
      isCpu ? --cpusLeft : ++acceleratorsUsed;
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

/// Most graphs balance well, so loads far above the lower bound are rarely worth a try, unless communication
/// or memory decides.
static std::vector<double> boundsFrom(double lowerBound) {
  return {1.2 * lowerBound, 2 * lowerBound, 16 * lowerBound, kNever};
}

std::optional<DeviceAssignment> searchAlong(llvm::ArrayRef<uint32_t> order, const GroupGraph &graph,
                                            const DeviceRow &devices, double lowerBound, double bound,
                                            uint64_t &work, bool mayEndEarly) {
  const DownsetLattice lattice = DownsetLattice::chain(order);
  DownsetSearch search(graph, devices, lattice);
  for (double nextBound : boundsFrom(lowerBound)) {
    if (auto found = search.run(std::min(nextBound, bound), work, mayEndEarly))
      return found;
    if (bound <= nextBound)
      break;
  }
  return std::nullopt;
}

std::optional<DeviceAssignment> linearise(const GroupGraph &graph, const DeviceRow &devices,
                                          double lowerBound, uint64_t &work) {
  std::vector<uint32_t> depthFirst(graph.groups.size());
  std::iota(depthFirst.begin(), depthFirst.end(), 0);
  const double room = devices.accelerators.empty() ? 0 : devices.accelerators.front().sizeLimit;
  const std::vector<uint32_t> orders[] = {depthFirst, breadthFirst(graph), largestFirst(graph, room)};
  std::optional<DeviceAssignment> best;
  for (const std::vector<uint32_t> &order : orders)
    for (double bound : boundsFrom(lowerBound))
      if (auto found = fill(graph, devices, order, bound); found && (!best || found->maxLoad < best->maxLoad))
        best = std::move(found);
  for (const std::vector<uint32_t> &order : orders)
    if (auto found = searchAlong(order, graph, devices, lowerBound, best ? best->maxLoad : kNever, work,
                                 /*mayEndEarly=*/best.has_value()))
      best = std::move(found);
  return best;
}

} // namespace cleave
