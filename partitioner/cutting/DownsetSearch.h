//===- DownsetSearch.h - The dynamic program over downsets ------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_DOWNSETSEARCH_H
#define CLEAVE_PARTITIONER_CUTTING_DOWNSETSEARCH_H

#include "partitioner/cutting/DownsetLattice.h"
#include "partitioner/graph/LimitRange.h"
#include "partitioner/graph/SearchLimits.h"
#include <algorithm>
#include <limits>
#include <optional>

namespace cleave {

/// Devices, each of which completes a downset: accelerators in this order, CPUs anywhere between them.
struct DeviceRow {
  struct Accelerator {
    /// With rounding: sizes are compared with it as they are.
    double sizeLimit = std::numeric_limits<double>::infinity();
    /// What its load grows by besides latencies: for one of cost of nets that groups before it share, the
    /// same for nets of its own that groups after it share, and once if there are any that groups before it
    /// share.
    double perReceived = 1, perSent = 1, toReceive = 0;
    /// Of those that groups have latencies on.
    uint32_t kind = 0;
    bool operator==(const Accelerator &) const = default;
  };
  std::vector<Accelerator> accelerators;
  uint32_t cpus = 0;
  /// Whether each device has groups, and among placements of the same maxLoad the most even is best. If not,
  /// accelerators are all alike and may be left out.
  bool isPipeline = false;
  /// Told of all sizes that are compared with limits, where accelerators have one in common; may be null.
  LimitRange *seen = nullptr;

  /// Of the dynamic program.
  uint64_t statesOf(uint64_t downsets) const { return downsets * (accelerators.size() + 1) * (cpus + 1); }
};

/// Latencies on accelerators of several kinds as one amount of work, of which an accelerator does in one of
/// load at most its kind's rate, whatever groups it has. Any positive rates make that so, as a group's work
/// is the least over kinds of rate times latency; these are in inverse proportion to what all groups take on
/// each kind, so that where kinds differ by a factor they lose nothing. Of one kind work is latency, and the
/// rate 1.
class SharedWork {
public:
  explicit SharedWork(const GroupGraph &graph);

  /// A group that no accelerator takes, has none.
  double of(const GroupGraph::Group &group) const;
  /// What the accelerators from `first` on do in one of load.
  double rateFrom(const DeviceRow &devices, size_t first) const;

private:
  /// By kind.
  std::vector<double> rates;
};

struct DevicesFound {
  /// By group: its device's place in the row.
  std::vector<uint32_t> deviceOf;
  /// By device.
  std::vector<bool> isCpu;
  double maxLoad = 0;
};

/// Of any contiguous placement's largest load: no group is faster than on its fastest device, and all devices
/// together do all the work, where a second of a CPU saves accelerators `exchange` seconds at most. Infinite
/// where some group fits no device.
double lowerBoundOf(const GroupGraph &graph, const DeviceRow &devices);

/// The best placement among those whose devices, one after the other, complete downsets of `lattice`.
///
/// least(I, a, c), the least maximum for the groups of downset I on a accelerators and c CPUs, is the minimum
/// over the downsets I' below I of max(least(I', a - 1, c), load(I \ I')), and the same with a CPU. Every I'
/// is extended to all I above it by walking up, compute, size and what crosses its boundary kept up to date
/// group by group. Not entered: what is full, has the maximum known already by compute and what it can no
/// more take back of communication, or leaves more than the devices left can do under that maximum.
class DownsetSearch {
public:
  DownsetSearch(const GroupGraph &graph, const DeviceRow &devices, const DownsetLattice &lattice);

  /// The best placement with a maxLoad below `bound`; nothing when there is none. Of a pipeline, the one of
  /// the least sum of squared loads; among equals, that whose last device begins first, then that before it.
  /// \param workLeft  what may be done (SearchLimits::work); lowered by what was, 0 when that ended the
  /// search.
  /// \param mayEndEarly  as CancellationScope says; then nothing is left of the work.
  std::optional<DevicesFound> run(double bound, uint64_t &workLeft, bool mayEndEarly = false);

private:
  enum class Aim { Fastest, MostEven };
  /// What one device would run, from the downset that the walk began at to where it is.
  struct Inside {
    double accelerator = 0, cpu = 0, size = 0;
    /// Costs of nets that groups in the downset below share, and of those that only groups above do.
    double received = 0, sent = 0;
    bool isSupported = true;
  };
  struct Frame {
    /// Steps still to take, and the group that the last one added.
    uint32_t nextStep, endStep, added;
    Inside before;
  };
  /// Devices used by a downset, with the least value for it.
  struct State {
    uint32_t accelerators, cpus;
    double least;
  };

  size_t stateOf(uint32_t downset, uint32_t accelerators, uint32_t cpus) const {
    return (size_t(downset) * (devices.accelerators.size() + 1) + accelerators) * (devices.cpus + 1) + cpus;
  }
  void spend(uint64_t amount);
  std::optional<DevicesFound> solve(Aim aim, double below);
  /// Lowers or raises the bound.
  void setBound(double below);
  /// Work that devices still do under the bound, where so many are used.
  double capacity(uint32_t accelerators, uint32_t cpus) const {
    return capacities[accelerators * (devices.cpus + 1) + cpus];
  }
  void collectStates(uint32_t downset);
  /// Lets `done` count the groups of `downset`.
  void settle(uint32_t downset);
  /// Of the state's next accelerator with what is here, if it sends `sent`; infinite if it does not take it.
  double loadOf(const State &state, double sent) const;
  /// … had it this limit.
  double loadWithin(double limit, const State &state, double sent) const;
  /// Whether some state's next device may hold it, or it with more.
  bool fits() const;
  /// What is inside takes on an accelerator of this kind.
  double latencyOn(uint32_t kind) const { return kind == 0 ? here.accelerator : others[kind - 1]; }
  void enter(uint32_t group);
  void leave(uint32_t group);
  /// Takes back what was added since the last Frame was made or begun.
  void restore(const Inside &before);
  /// The step's group to what is inside, from `start` on; false where no device may hold that.
  bool add(const DownsetLattice::Step &step, uint32_t start);
  void walk(uint32_t start);
  void walkChain(uint32_t start);
  void relax(uint32_t start, uint32_t target);
  /// Of next devices that differ in limits alone, to which this is the load.
  void relaxAlike(uint32_t start, uint32_t target, double load);
  void offer(uint32_t target, const State &from, bool isCpu, double load, uint32_t start);
  DevicesFound trace() const;

  const GroupGraph &graph;
  const DeviceRow devices;
  const DownsetLattice &lattice;
  /// Accelerators that differ in limits alone, and no CPUs.
  const bool isUniform;
  const SharedWork shared;
  /// Most accelerator latency that a CPU takes away for one of its own.
  double exchange = 0;
  /// By downset: work of what is not in it.
  std::vector<double> remaining;
  /// By accelerators used: `rateFrom` it.
  std::vector<double> rates;
  /// By accelerators used, then CPUs.
  std::vector<double> capacities;
  Aim aim = Aim::Fastest;
  /// Loads, and values of everything, are to be below these, which are one if the aim is the fastest.
  double bound = 0, best = 0;
  /// By state.
  std::vector<double> least;
  /// The downset before the state's last device, twice; plus 1 for a CPU.
  std::vector<uint64_t> from;
  size_t bestState = 0;
  bool hasFound = false;
  uint64_t work = 0;
  bool mayEndEarly = false;
  /// What may be done before CancellationScope is asked again.
  uint64_t untilAsked = 0;
  /// Of the downset that is walked from: those that no other with as few devices is as good as.
  std::vector<State> states;
  /// Of these states' next devices, at most: work that one may leave undone, and its limit.
  double mostLeft = 0, mostRoom = 0;
  /// By net: groups inside, and in the downset below.
  std::vector<uint32_t> inside, done;
  uint32_t settled = 0;
  Inside here;
  /// `here.accelerator` on the second kind and on, and what these were before each frame.
  std::vector<double> others, othersBefore;
  std::vector<Frame> stack;
};

/// What a search came to.
struct SearchOutcome {
  std::optional<DevicesFound> found;
  SearchEnd end = SearchEnd::Complete;
  /// 0 where they were too many.
  uint64_t downsets = 0;
};

/// The best placement with a maxLoad below `bound`.
/// \param work  lowered by what was done.
SearchOutcome searchAll(const GroupGraph &graph, const DeviceRow &devices, double bound,
                        uint64_t mostDownsets, uint64_t &work);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_DOWNSETSEARCH_H
