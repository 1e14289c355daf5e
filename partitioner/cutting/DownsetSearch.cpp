//===- DownsetSearch.cpp - The dynamic program over downsets --------------===//
#include "partitioner/cutting/DownsetSearch.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>

namespace cleave {

static constexpr double kNever = std::numeric_limits<double>::infinity();
/// Work of a few milliseconds between polls of CancellationScope.
static constexpr uint64_t kBetweenQuestions = 1 << 18;

static bool areAlikeButForLimits(const DeviceRow &devices) {
  auto isAlike = [&](DeviceRow::Accelerator one) {
    one.sizeLimit = devices.accelerators.front().sizeLimit;
    return one == devices.accelerators.front();
  };
  return devices.cpus == 0 && llvm::all_of(devices.accelerators, isAlike);
}

DownsetSearch::DownsetSearch(const GroupGraph &graph, const DeviceRow &devices, const DownsetLattice &lattice)
    : graph(graph), devices(devices), lattice(lattice), isUniform(areAlikeButForLimits(devices)),
      normalizedWork(graph), remaining(lattice.size()), inside(graph.nets.size()), done(graph.nets.size()) {
  for (const GroupGraph::Group &group : graph.groups) {
    remaining[0] += normalizedWork.of(group);
    if (normalizedWork.of(group) > 0)
      exchange = std::max(exchange, normalizedWork.of(group) / group.cpuLatency);
  }
  for (uint32_t downset = 1; downset < lattice.size(); ++downset) {
    const DownsetLattice::Step below = lattice.below(downset);
    remaining[downset] = remaining[below.target] - normalizedWork.of(graph.groups[below.group]);
  }
  for (size_t used = 0; used <= devices.accelerators.size(); ++used)
    rates.push_back(normalizedWork.rateFrom(devices, used));
}

void DownsetSearch::spend(uint64_t amount) {
  work -= std::min(work, amount);
  untilAsked -= std::min(untilAsked, amount);
  if (!mayEndEarly || untilAsked > 0)
    return;
  untilAsked = kBetweenQuestions;
  if (CancellationScope::isRequested())
    work = 0;
}

void DownsetSearch::setBound(double below) {
  bound = below;
  capacities.clear();
  for (double rate : rates)
    for (uint32_t cpus = 0; cpus <= devices.cpus; ++cpus) {
      const double onCpus = cpus < devices.cpus ? (devices.cpus - cpus) * exchange * bound : 0;
      capacities.push_back(rate * bound + onCpus + remaining[0] * (kRoundingFactor - 1));
    }
}

void DownsetSearch::collectStates(uint32_t downset) {
  states.clear();
  mostLeft = mostRoom = 0;
  const uint32_t accelerators = devices.accelerators.size();
  // By CPUs: the smallest value with at most that many, and fewer accelerators.
  std::vector<double> leastBefore(devices.cpus + 1, kNever);
  for (uint32_t used = 0; used <= accelerators; ++used) {
    double leastHere = kNever;
    for (uint32_t cpus = 0; cpus <= devices.cpus; ++cpus) {
      const double value = bestValue[stateOf(downset, used, cpus)];
      const double leastOfFewer = devices.isPipeline ? kNever : std::min(leastHere, leastBefore[cpus]);
      leastHere = leastBefore[cpus] = std::min(value, leastOfFewer);
      if (value >= std::min(best, leastOfFewer) || remaining[downset] > capacity(used, cpus))
        continue;
      states.push_back({used, cpus, value});
      if (used < accelerators) {
        mostLeft = std::max(mostLeft, capacity(used + 1, cpus));
        mostRoom = std::max(mostRoom, devices.accelerators[used].sizeLimit);
      }
      if (cpus < devices.cpus)
        mostLeft = std::max(mostLeft, capacity(used, cpus + 1));
    }
  }
}

/// Goes from the downset settled last to the new one, through their common subset; subsets have lower
/// numbers.
void DownsetSearch::settle(uint32_t downset) {
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

void DownsetSearch::enter(uint32_t group) {
  for (uint32_t net : graph.netsOf[group]) {
    const GroupGraph::Net &value = graph.nets[net];
    if (inside[net]++ == 0) {
      contents.size += value.size;
      (done[net] > 0 ? contents.received : contents.sent) += value.cost;
    }
    if (inside[net] == value.groups.size())
      contents.sent -= value.cost;
  }
}

void DownsetSearch::restore(const Contents &before) {
  contents = before;
  std::copy(othersBefore.end() - others.size(), othersBefore.end(), others.begin());
  othersBefore.resize(othersBefore.size() - others.size());
}

void DownsetSearch::leave(uint32_t group) {
  for (uint32_t net : graph.netsOf[group])
    --inside[net];
}

static void note(LimitRange *seen, double size, bool hasRoom) {
  if (seen)
    seen->note(int64_t(std::min(size, 0x1p62)), hasRoom);
}

double DownsetSearch::loadWithin(double limit, const State &state, double sent) const {
  if (state.accelerators == devices.accelerators.size() || !contents.isSupported)
    return kNever;
  const bool hasRoom = contents.size <= limit;
  note(devices.seen, contents.size, hasRoom);
  if (!hasRoom)
    return kNever;
  const DeviceRow::Accelerator &next = devices.accelerators[state.accelerators];
  return latencyOn(next.kind) + contents.received * next.perReceived + sent * next.perSent +
         (contents.received > 0 ? next.toReceive : 0);
}

double DownsetSearch::loadOf(const State &state, double sent) const {
  const size_t next = state.accelerators;
  return next < devices.accelerators.size() ? loadWithin(devices.accelerators[next].sizeLimit, state, sent)
                                            : kNever;
}

bool DownsetSearch::fits() const {
  // If any state has a next device, the first one does.
  if (isUniform)
    return loadWithin(mostRoom, states.front(), /*sent=*/0) < bound * kRoundingFactor;
  return llvm::any_of(states, [&](const State &state) {
    return loadOf(state, /*sent=*/0) < bound * kRoundingFactor ||
           (state.cpus < devices.cpus && contents.cpu < bound);
  });
}

void DownsetSearch::offer(uint32_t target, const State &state, bool isCpu, double load, uint32_t start) {
  const uint32_t accelerators = state.accelerators + !isCpu, cpus = state.cpus + isCpu;
  const bool isLast = target + 1 == lattice.size();
  if (cpus > devices.cpus || (isLast && devices.isPipeline && accelerators < devices.accelerators.size()))
    return;
  const bool isSum = aim == Aim::MostEven;
  const double value = isSum ? state.bestValue + load * load : std::max(state.bestValue, load);
  const size_t to = stateOf(target, accelerators, cpus);
  if (value >= best || remaining[target] > capacity(accelerators, cpus) ||
      value * (isSum ? kRoundingFactor : 1) >= bestValue[to])
    return;
  bestValue[to] = value;
  from[to] = uint64_t(start) * 2 + isCpu;
  if (!isLast)
    return;
  best = value;
  if (aim == Aim::Fastest)
    setBound(value);
  bestState = to;
  hasFound = true;
}

void DownsetSearch::relaxAlike(uint32_t start, uint32_t target, double load) {
  const bool isSum = aim == Aim::MostEven;
  const double more = load * load, rounding = isSum ? kRoundingFactor : 1, left = remaining[target],
               most = best, size = contents.size;
  const size_t first = stateOf(target, 0, 0);
  for (const State &state : states) {
    const uint32_t used = state.accelerators + 1;
    // Later states use more devices, so the others can do less of the work left.
    if (used >= capacities.size() || left > capacities[used])
      return;
    const double value = isSum ? state.bestValue + more : std::max(state.bestValue, load);
    if (value >= most || value * rounding >= bestValue[first + used])
      continue;
    if (size > devices.accelerators[used - 1].sizeLimit) {
      note(devices.seen, size, /*hasRoom=*/false);
      continue;
    }
    bestValue[first + used] = value;
    from[first + used] = uint64_t(start) * 2;
  }
}

void DownsetSearch::relax(uint32_t start, uint32_t target) {
  spend(states.size());
  const bool isLast = target + 1 == lattice.size();
  if (isUniform && !isLast) {
    if (const double load = loadWithin(mostRoom, states.front(), contents.sent); load < bound)
      relaxAlike(start, target, load);
    return;
  }
  for (const State &state : states) {
    if (const double load = loadOf(state, contents.sent); load < bound)
      offer(target, state, /*isCpu=*/false, load, start);
    if (contents.cpu < bound)
      offer(target, state, /*isCpu=*/true, contents.cpu, start);
  }
}

bool DownsetSearch::add(const DownsetLattice::Step &step, uint32_t start) {
  const GroupGraph::Group &group = graph.groups[step.group];
  contents.accelerator += group.acceleratorLatency;
  contents.cpu += group.cpuLatency;
  contents.size += group.size;
  contents.isSupported &= group.isSupported;
  for (auto [sum, latency] : llvm::zip(others, group.otherLatencies))
    sum += latency;
  if (work == 0 || !fits())
    return false;
  spend(1 + graph.netsOf[step.group].size());
  enter(step.group);
  if (remaining[step.target] <= mostLeft)
    relax(start, step.target);
  return true;
}

/// The walk if each downset has one step, as long as some device may hold the contents.
void DownsetSearch::walkChain(uint32_t start) {
  const uint32_t segment = graph.groups[lattice.steps()[start].group].segment;
  uint32_t at = start;
  while (at + 1 < lattice.size() && graph.groups[lattice.steps()[at].group].segment == segment &&
         add(lattice.steps()[at], start))
    ++at;
  while (at > start)
    leave(lattice.steps()[--at].group);
}

/// Depth-first walk through all downsets above `start`. Going back restores saved contents, so that rounding
/// errors do not accumulate.
void DownsetSearch::walk(uint32_t start) {
  contents = {};
  others.assign(graph.kinds() - 1, 0);
  if (lattice.isChain())
    return walkChain(start);
  // A step into another segment ends at that segment's first downset, with this segment complete.
  const uint32_t segment = graph.groups[lattice.steps()[lattice.firstStep(start)].group].segment;
  stack.push_back({lattice.firstStep(start), lattice.firstStep(start + 1), 0, {}});
  othersBefore = others;
  while (!stack.empty()) {
    Frame &frame = stack.back();
    if (frame.nextStep == frame.endStep) {
      if (stack.size() > 1)
        leave(frame.added);
      restore(frame.before);
      stack.pop_back();
      continue;
    }
    const DownsetLattice::Step &step = lattice.steps()[frame.nextStep++];
    if (graph.groups[step.group].segment != segment)
      continue;
    const Contents before = contents;
    othersBefore.insert(othersBefore.end(), others.begin(), others.end());
    if (add(step, start))
      stack.push_back({step.later, lattice.firstStep(step.target + 1), step.group, before});
    else
      restore(before);
  }
}

DeviceAssignment DownsetSearch::trace() const {
  DeviceAssignment found;
  found.maxLoad = bound;
  found.deviceOf.resize(graph.groups.size());
  // Walks from the last device to the first.
  const size_t row = devices.statesOf(1);
  size_t state = bestState;
  for (uint32_t downset = lattice.size() - 1; downset != 0;) {
    const uint32_t start = from[state] / 2;
    const bool isCpu = from[state] % 2;
    // `start` may reach the common subset by other groups than `downset` does.
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

std::optional<DeviceAssignment> DownsetSearch::solve(Aim nextAim, double below) {
  const size_t count = devices.statesOf(lattice.size());
  spend(count);
  if (work == 0)
    return std::nullopt;
  aim = nextAim;
  // Finite, since it is multiplied with values that may be 0.
  setBound(std::min(below, std::numeric_limits<double>::max()));
  best = aim == Aim::Fastest ? bound : kNever;
  hasFound = false;
  bestValue.assign(count, kNever);
  from.assign(count, 0);
  bestValue[stateOf(0, 0, 0)] = 0;
  for (uint32_t start = 0; start + 1 < lattice.size() && work > 0; ++start) {
    collectStates(start);
    if (states.empty())
      continue;
    settle(start);
    walk(start);
  }
  if (!hasFound)
    return std::nullopt;
  return trace();
}

std::optional<DeviceAssignment> DownsetSearch::run(double bound, uint64_t &workLeft, bool endsEarly) {
  work = workLeft;
  mayEndEarly = endsEarly;
  auto found = solve(Aim::Fastest, bound);
  if (found && devices.isPipeline)
    // Above 0, since loads of 0 must be below it.
    if (auto even = solve(Aim::MostEven, std::nextafter(found->maxLoad * kRoundingFactor, kNever)))
      found->deviceOf = std::move(even->deviceOf);
  workLeft = work;
  return found;
}

SearchOutcome searchAll(const GroupGraph &graph, const DeviceRow &devices, double bound,
                        uint64_t mostDownsets, uint64_t &work) {
  const std::optional<DownsetLattice> lattice = DownsetLattice::all(graph, mostDownsets);
  if (!lattice)
    return {std::nullopt, SearchEnd::TooManyDownsets};
  if (devices.statesOf(lattice->size()) > kMaxSearchStates)
    return {std::nullopt, SearchEnd::TooManyStates};
  auto found = DownsetSearch(graph, devices, *lattice).run(bound, work, /*mayEndEarly=*/true);
  if (work > 0)
    return {std::move(found), SearchEnd::Complete, lattice->size()};
  return {std::move(found), CancellationScope::isRequested() ? SearchEnd::Interrupted : SearchEnd::OutOfWork,
          lattice->size()};
}

} // namespace cleave
