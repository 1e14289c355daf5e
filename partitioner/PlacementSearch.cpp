//===- PlacementSearch.cpp - The dynamic program over downsets ------------===//
#include "partitioner/PlacementSearch.h"

#include <algorithm>

namespace cleave {

static constexpr double kNever = std::numeric_limits<double>::infinity();

/// A group that no accelerator takes, needs none.
static double acceleratorWork(const ColourGraph::Group &group) {
  return group.isSupported ? group.acceleratorLatency : 0;
}

PlacementSearch::PlacementSearch(const ColourGraph &graph, const DeviceCounts &devices,
                                 const DownsetLattice &lattice)
    : graph(graph), devices(devices), lattice(lattice), remaining(lattice.size()), inside(graph.nets.size()),
      done(graph.nets.size()) {
  for (const ColourGraph::Group &group : graph.groups) {
    remaining[0] += acceleratorWork(group);
    if (acceleratorWork(group) > 0)
      exchange = std::max(exchange, acceleratorWork(group) / group.cpuLatency);
  }
  for (uint32_t downset = 1; downset < lattice.size(); ++downset) {
    const DownsetLattice::Step below = lattice.below(downset);
    remaining[downset] = remaining[below.target] - acceleratorWork(graph.groups[below.group]);
  }
}

/// Accelerator latency that is done at most by devices under the bound.
double PlacementSearch::capacity(uint32_t accelerators, uint32_t cpus) const {
  const double onCpus = cpus > 0 ? cpus * exchange * bound : 0;
  return accelerators * bound + onCpus + remaining[0] * (kRounding - 1);
}

void PlacementSearch::collectStates(uint32_t downset) {
  states.clear();
  mostLeft = 0;
  // By CPUs: the least with at most that many, and fewer accelerators.
  std::vector<double> leastBefore(devices.cpus + 1, kNever);
  for (uint32_t accelerators = 0; accelerators <= devices.accelerators; ++accelerators) {
    double leastHere = kNever;
    for (uint32_t cpus = 0; cpus <= devices.cpus; ++cpus) {
      const double value = least[stateOf(downset, accelerators, cpus)];
      const uint32_t acceleratorsLeft = devices.accelerators - accelerators, cpusLeft = devices.cpus - cpus;
      const double leastOfFewer = std::min(leastHere, leastBefore[cpus]);
      leastHere = leastBefore[cpus] = std::min(value, leastOfFewer);
      if (value >= std::min(bound, leastOfFewer) || remaining[downset] > capacity(acceleratorsLeft, cpusLeft))
        continue;
      states.push_back({accelerators, cpus, value});
      if (acceleratorsLeft > 0)
        mostLeft = std::max(mostLeft, capacity(acceleratorsLeft - 1, cpusLeft));
      if (cpusLeft > 0)
        mostLeft = std::max(mostLeft, capacity(acceleratorsLeft, cpusLeft - 1));
    }
  }
}

/// From the downset that was settled last, by way of what both have below them: numbers of subsets are lower.
void PlacementSearch::settle(uint32_t downset) {
  uint32_t added = downset;
  while (added != settled) {
    const bool adds = added > settled;
    uint32_t &upper = adds ? added : settled;
    const DownsetLattice::Step below = lattice.below(upper);
    spend(1 + graph.netsOf[below.group].size());
    for (uint32_t net : graph.netsOf[below.group])
      done[net] += adds ? 1 : -1;
    upper = below.target;
  }
  settled = downset;
}

void PlacementSearch::enter(uint32_t group) {
  for (uint32_t net : graph.netsOf[group]) {
    const ColourGraph::Net &value = graph.nets[net];
    if (inside[net]++ == 0) {
      here.cut += value.cost;
      if (done[net] > 0)
        here.settled += value.cost;
    }
    if (inside[net] == value.groups.size())
      here.cut -= value.cost;
  }
}

void PlacementSearch::leave(uint32_t group) {
  for (uint32_t net : graph.netsOf[group])
    --inside[net];
}

/// Whether some device may hold it, or it with more.
bool PlacementSearch::fits(const Inside &next) const {
  const bool onAccelerator = devices.accelerators > 0 && next.isSupported && next.size <= devices.sizeLimit &&
                             next.accelerator + next.settled < bound * kRounding;
  return onAccelerator || (devices.cpus > 0 && next.cpu < bound);
}

void PlacementSearch::offer(uint32_t target, const State &state, bool isCpu, double load, uint32_t start) {
  const uint32_t accelerators = state.accelerators + !isCpu, cpus = state.cpus + isCpu;
  const double value = std::max(state.least, load);
  if (accelerators > devices.accelerators || cpus > devices.cpus || value >= bound)
    return;
  if (remaining[target] > capacity(devices.accelerators - accelerators, devices.cpus - cpus))
    return;
  const size_t to = stateOf(target, accelerators, cpus);
  if (value >= least[to])
    return;
  least[to] = value;
  from[to] = uint64_t(start) * 2 + isCpu;
  if (target + 1 == lattice.size()) {
    bound = value;
    bestState = to;
    hasFound = true;
  }
}

void PlacementSearch::relax(uint32_t start, uint32_t target) {
  const double load = here.accelerator + here.cut;
  const bool onAccelerator = here.isSupported && here.size <= devices.sizeLimit && load < bound;
  spend(states.size());
  for (const State &state : states) {
    if (onAccelerator)
      offer(target, state, /*isCpu=*/false, load, start);
    if (here.cpu < bound)
      offer(target, state, /*isCpu=*/true, here.cpu, start);
  }
}

/// Depth first through all that lies above `start`. What is inside is put back as it was when the walk turns,
/// so that rounding does not pile up.
void PlacementSearch::walk(uint32_t start) {
  here = {};
  stack.push_back({lattice.firstStep(start), lattice.firstStep(start + 1), 0, {}});
  while (!stack.empty()) {
    Frame &frame = stack.back();
    if (frame.nextStep == frame.endStep) {
      if (stack.size() > 1)
        leave(frame.added);
      here = frame.before;
      stack.pop_back();
      continue;
    }
    const DownsetLattice::Step &step = lattice.steps()[frame.nextStep++];
    const Inside before = here;
    const ColourGraph::Group &group = graph.groups[step.group];
    here.accelerator += group.acceleratorLatency;
    here.cpu += group.cpuLatency;
    here.size += group.size;
    here.isSupported &= group.isSupported;
    if (work == 0 || !fits(here)) {
      here = before;
      continue;
    }
    spend(1 + graph.netsOf[step.group].size());
    enter(step.group);
    if (remaining[step.target] <= mostLeft)
      relax(start, step.target);
    stack.push_back({step.later, lattice.firstStep(step.target + 1), step.group, before});
  }
}

PlacementFound PlacementSearch::trace() const {
  PlacementFound found;
  found.maxLoad = bound;
  found.deviceOf.resize(graph.groups.size());
  // From the last device to the first.
  const size_t row = (devices.accelerators + 1) * (devices.cpus + 1);
  size_t state = bestState;
  for (uint32_t downset = lattice.size() - 1; downset != 0;) {
    const uint32_t start = from[state] / 2;
    const bool isCpu = from[state] % 2;
    // `start` has parts of its own below other parts of `downset`.
    std::vector<int> member(graph.groups.size(), 0);
    for (uint32_t at = downset; at != 0; at = lattice.below(at).target)
      ++member[lattice.below(at).group];
    for (uint32_t at = start; at != 0; at = lattice.below(at).target)
      --member[lattice.below(at).group];
    for (uint32_t group = 0; group < member.size(); ++group)
      if (member[group])
        found.deviceOf[group] = found.isCpu.size();
    found.isCpu.push_back(isCpu);
    const uint32_t devicesUsed = state % row;
    const uint32_t accelerators = devicesUsed / (devices.cpus + 1), cpus = devicesUsed % (devices.cpus + 1);
    state = stateOf(start, accelerators - !isCpu, cpus - isCpu);
    downset = start;
  }
  std::reverse(found.isCpu.begin(), found.isCpu.end());
  for (uint32_t &device : found.deviceOf)
    device = found.isCpu.size() - 1 - device;
  return found;
}

std::optional<PlacementFound> PlacementSearch::run(double below, uint64_t &workLeft) {
  const size_t count = stateOf(lattice.size(), 0, 0);
  work = workLeft;
  spend(count);
  if (work == 0) {
    workLeft = 0;
    return std::nullopt;
  }
  // Finite, for it is multiplied with what may be 0.
  bound = std::min(below, std::numeric_limits<double>::max());
  hasFound = false;
  least.assign(count, kNever);
  from.assign(count, 0);
  least[stateOf(0, 0, 0)] = 0;
  for (uint32_t start = 0; start + 1 < lattice.size() && work > 0; ++start) {
    collectStates(start);
    if (states.empty())
      continue;
    settle(start);
    walk(start);
  }
  workLeft = work;
  if (!hasFound)
    return std::nullopt;
  return trace();
}

} // namespace cleave
