//===- PlacementSearch.h - The dynamic program over downsets ----*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_PLACEMENTSEARCH_H
#define CLEAVE_PARTITIONER_PLACEMENTSEARCH_H

#include "partitioner/DownsetLattice.h"
#include <algorithm>
#include <limits>

namespace cleave {

/// What the search knows of a problem's devices.
struct DeviceCounts {
  uint32_t accelerators, cpus;
  /// With rounding: sizes are compared with it as they are.
  double sizeLimit;
};

struct PlacementFound {
  /// By group: its device's place in the order of devices.
  std::vector<uint32_t> deviceOf;
  /// By device.
  std::vector<bool> isCpu;
  double maxLoad = 0;
};

/// The placement of least maxLoad among those whose devices, one after the other, complete downsets of
/// `lattice`.
///
/// least(I, a, c), the least maximum for the groups of downset I on a accelerators and c CPUs, is the minimum
/// over the downsets I' below I of max(least(I', a - 1, c), load(I \ I')), and the same with a CPU. Every I'
/// is extended to all I above it by walking up, compute, size and what crosses its boundary kept up to date
/// group by group. Not entered: what is full, has the maximum known already by compute and what it can no
/// more take back of communication, or leaves more than the devices left can do under that maximum.
class PlacementSearch {
public:
  PlacementSearch(const ColourGraph &graph, const DeviceCounts &devices, const DownsetLattice &lattice);

  /// The best placement with a maxLoad below `bound`; nothing when there is none.
  /// \param workLeft  what may be done, as PlacementLimits::work counts it; lowered by what was, 0 when that
  /// ended the search.
  std::optional<PlacementFound> run(double bound, uint64_t &workLeft);

private:
  /// What one device would run, from the downset that the walk began at to where it is.
  struct Inside {
    double accelerator = 0, cpu = 0, size = 0;
    /// Costs of nets with groups inside and out, and of these nets with groups in the downset below.
    double cut = 0, settled = 0;
    bool isSupported = true;
  };
  struct Frame {
    /// Steps still to take, and the group that the last one added.
    uint32_t nextStep, endStep, added;
    Inside before;
  };
  /// Devices used by a downset, with the least maximum for it.
  struct State {
    uint32_t accelerators, cpus;
    double least;
  };

  size_t stateOf(uint32_t downset, uint32_t accelerators, uint32_t cpus) const {
    return (size_t(downset) * (devices.accelerators + 1) + accelerators) * (devices.cpus + 1) + cpus;
  }
  void spend(uint64_t amount) { work -= std::min(work, amount); }
  double capacity(uint32_t accelerators, uint32_t cpus) const;
  void collectStates(uint32_t downset);
  /// Lets `done` count the groups of `downset`.
  void settle(uint32_t downset);
  bool fits(const Inside &next) const;
  void enter(uint32_t group);
  void leave(uint32_t group);
  void walk(uint32_t start);
  void relax(uint32_t start, uint32_t target);
  void offer(uint32_t target, const State &from, bool isCpu, double load, uint32_t start);
  PlacementFound trace() const;

  const ColourGraph &graph;
  const DeviceCounts devices;
  const DownsetLattice &lattice;
  /// Most accelerator latency that a CPU takes away for one of its own.
  double exchange = 0;
  /// By downset: accelerator latency of what is not in it.
  std::vector<double> remaining;
  double bound = std::numeric_limits<double>::infinity();
  /// By state.
  std::vector<double> least;
  /// The downset before the state's last device, twice; plus 1 for a CPU.
  std::vector<uint64_t> from;
  size_t bestState = 0;
  bool hasFound = false;
  uint64_t work = 0;
  /// Of the downset that is walked from: those that no other with as few devices is as good as.
  std::vector<State> states;
  /// Accelerator latency that one more device may leave undone, from the best of these states.
  double mostLeft = 0;
  /// By net: groups inside, and in the downset below.
  std::vector<uint32_t> inside, done;
  uint32_t settled = 0;
  Inside here;
  std::vector<Frame> stack;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_PLACEMENTSEARCH_H
