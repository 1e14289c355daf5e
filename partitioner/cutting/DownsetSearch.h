//===- DownsetSearch.h - The dynamic program over downsets ------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_DOWNSETSEARCH_H
#define CLEAVE_PARTITIONER_CUTTING_DOWNSETSEARCH_H

#include "partitioner/cutting/DeviceRow.h"
#include "partitioner/cutting/DownsetLattice.h"
#include "partitioner/graph/SearchLimits.h"
#include <optional>
#include <vector>

namespace cleave {

struct DeviceAssignment {
  /// By group: index of its device in the row.
  std::vector<uint32_t> deviceOf;
  /// By device.
  std::vector<bool> isCpu;
  double maxLoad = 0;
};

/// Finds the best placement among those whose devices, one after the other, complete downsets of `lattice`.
///
/// Let best(I, a, c) be the smallest maximum load with which `a` accelerators and `c` CPUs hold the groups of
/// downset I. It is the minimum over the downsets I' below I of max(best(I', a - 1, c), load(I \ I')), and of
/// the same with a CPU in place of an accelerator. From every I' the search walks up to all I above it, and
/// updates compute, size and net costs group by group. It prunes a downset whose size exceeds the limit,
/// whose load without further sends already reaches the best maximum, or that leaves more work than the
/// remaining devices can do under that maximum.
class DownsetSearch {
public:
  DownsetSearch(const GroupGraph &graph, const DeviceRow &devices, const DownsetLattice &lattice);

  /// The best placement with a maxLoad below `bound`, if there is one. For a pipeline, the one with the
  /// smallest sum of squared loads; ties go to the one whose last device begins first.
  /// \param workLeft     budget (SearchLimits::work), reduced by what was done; 0 if it ended the search.
  /// \param mayEndEarly  obey CancellationScope; the remaining work is then 0.
  std::optional<DeviceAssignment> run(double bound, uint64_t &workLeft, bool mayEndEarly = false);

private:
  enum class Aim { Fastest, MostEven };
  /// Contents of one device during a walk: the groups added since the downset that the walk began at.
  struct Contents {
    double accelerator = 0, cpu = 0, size = 0;
    /// `received`: cost of the contents' nets that also have a group in the downset below. `sent`: cost of
    /// their other nets that also have a group above the contents.
    double received = 0, sent = 0;
    bool isSupported = true;
  };
  struct Frame {
    /// Steps still to take, and the group that the last step added.
    uint32_t nextStep, endStep, added;
    Contents before;
  };
  /// Numbers of devices that a downset uses, and the best value for them.
  struct State {
    uint32_t accelerators, cpus;
    double bestValue;
  };

  size_t stateOf(uint32_t downset, uint32_t accelerators, uint32_t cpus) const {
    return (size_t(downset) * (devices.accelerators.size() + 1) + accelerators) * (devices.cpus + 1) + cpus;
  }
  void spend(uint64_t amount);
  std::optional<DeviceAssignment> solve(Aim aim, double below);
  /// Sets the pruning bound and the capacities that follow from it.
  void setBound(double below);
  /// Work that the remaining devices can do under the bound, if this many are used.
  double capacity(uint32_t accelerators, uint32_t cpus) const {
    return capacities[accelerators * (devices.cpus + 1) + cpus];
  }
  void collectStates(uint32_t downset);
  /// Updates `done` to count the groups of `downset`.
  void settle(uint32_t downset);
  /// Load of the state's next accelerator with `contents` if it sends `sent`; infinite if it cannot hold it.
  double loadOf(const State &state, double sent) const;
  /// loadOf as if the accelerator had this size limit.
  double loadWithin(double limit, const State &state, double sent) const;
  /// True if the next device of some state may hold the contents, perhaps with more groups.
  bool fits() const;
  /// Latency of the contents on an accelerator of this kind.
  double latencyOn(uint32_t kind) const { return kind == 0 ? contents.accelerator : others[kind - 1]; }
  void enter(uint32_t group);
  void leave(uint32_t group);
  /// Restores the contents that were saved when the last Frame was made.
  void restore(const Contents &before);
  /// Adds the group of the step to the contents of a walk from `start`; false if no device may hold them.
  bool add(const DownsetLattice::Step &step, uint32_t start);
  void walk(uint32_t start);
  void walkChain(uint32_t start);
  void relax(uint32_t start, uint32_t target);
  /// relax for a row whose next devices differ only in their limits, so that `load` is the same for all.
  void relaxAlike(uint32_t start, uint32_t target, double load);
  void offer(uint32_t target, const State &from, bool isCpu, double load, uint32_t start);
  DeviceAssignment trace() const;

  const GroupGraph &graph;
  const DeviceRow devices;
  const DownsetLattice &lattice;
  /// True if accelerators differ only in their limits and there are no CPUs.
  const bool isUniform;
  const NormalizedWork normalizedWork;
  /// Most accelerator work that one second of a CPU replaces.
  double exchange = 0;
  /// By downset: work of the groups that are not in it.
  std::vector<double> remaining;
  /// By number of accelerators used: rateFrom that accelerator.
  std::vector<double> rates;
  /// By number of accelerators used, then CPUs used: see capacity.
  std::vector<double> capacities;
  Aim aim = Aim::Fastest;
  /// Limits of a device's load and of a placement's value. Equal while the aim is Fastest.
  double bound = 0, best = 0;
  /// By state: its smallest value so far.
  std::vector<double> bestValue;
  /// By state: twice the downset before its last device, plus 1 if that is a CPU.
  std::vector<uint64_t> from;
  size_t bestState = 0;
  bool hasFound = false, mayEndEarly = false;
  uint64_t work = 0;
  /// Work left until CancellationScope is asked again.
  uint64_t untilAsked = 0;
  /// States of the downset that the walk began at, without dominated ones.
  std::vector<State> states;
  /// Maximum over these states: work left after their next device, and that device's size limit.
  double mostLeft = 0, mostRoom = 0;
  /// By net: number of its groups in the contents, and in the downset below.
  std::vector<uint32_t> inside, done;
  uint32_t settled = 0;
  Contents contents;
  /// Latency of the contents on the second and further kinds, and its values saved for each frame.
  std::vector<double> others, othersBefore;
  std::vector<Frame> stack;
};

/// Result of a search.
struct SearchOutcome {
  std::optional<DeviceAssignment> found;
  SearchEnd end = SearchEnd::Complete;
  /// 0 if there were too many to list.
  uint64_t downsets = 0;
};

/// Finds the best placement with a maxLoad below `bound`.
/// \param work  remaining budget, reduced by the work that was done.
SearchOutcome searchAll(const GroupGraph &graph, const DeviceRow &devices, double bound,
                        uint64_t mostDownsets, uint64_t &work);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_DOWNSETSEARCH_H
