//===- DeviceRow.cpp - A sequence of devices, and the work they do --------===//
#include "partitioner/cutting/DeviceRow.h"

#include <algorithm>
#include <cmath>

namespace cleave {

static constexpr double kNever = std::numeric_limits<double>::infinity();

NormalizedWork::NormalizedWork(const GroupGraph &graph) {
  std::vector<double> totals(graph.kinds());
  for (const GroupGraph::Group &group : graph.groups)
    for (uint32_t kind = 0; kind < totals.size(); ++kind)
      totals[kind] += group.latencyOn(kind);
  for (double total : totals)
    rates.push_back(total > 0 && totals.front() > 0 ? totals.front() / total : 1);
}

double NormalizedWork::of(const GroupGraph::Group &group) const {
  double work = kNever;
  for (uint32_t kind = 0; kind < rates.size(); ++kind)
    work = std::min(work, rates[kind] * group.latencyOn(kind));
  return group.isSupported ? work : 0;
}

double NormalizedWork::rateFrom(const DeviceRow &devices, size_t first) const {
  double rate = 0;
  for (size_t rank = first; rank < devices.accelerators.size(); ++rank)
    rate += rates[devices.accelerators[rank].kind];
  return rate;
}

/// Lower bound from the group alone: its time on the fastest device that takes it.
static double leastTime(const GroupGraph::Group &group, const DeviceRow &devices) {
  double least = devices.cpus > 0 ? group.cpuLatency : kNever;
  for (const DeviceRow::Accelerator &accelerator : devices.accelerators)
    if (group.isSupported && group.size <= accelerator.sizeLimit)
      least = std::min(least, group.latencyOn(accelerator.kind));
  return least;
}

double lowerBoundOf(const GroupGraph &graph, const DeviceRow &devices) {
  const NormalizedWork normalizedWork(graph);
  double bound = 0, work = 0, cpuWork = 0, exchange = 0;
  for (const GroupGraph::Group &group : graph.groups) {
    bound = std::max(bound, leastTime(group, devices));
    if (!group.isSupported || devices.accelerators.empty()) {
      cpuWork += group.cpuLatency;
    } else if (const double own = normalizedWork.of(group); own > 0) {
      work += own;
      exchange = std::max(exchange, own / group.cpuLatency);
    }
  }
  if (devices.cpus == 0)
    exchange = 0;
  // Quotients of sums are rounded.
  const double exact = graph.kinds() > 1 ? kRoundingFactor : 1;
  if (work > 0 && std::isfinite(exchange))
    bound = std::max(bound, work / (normalizedWork.rateFrom(devices, 0) + devices.cpus * exchange) / exact);
  return cpuWork > 0 ? std::max(bound, cpuWork / devices.cpus) : bound;
}

} // namespace cleave
