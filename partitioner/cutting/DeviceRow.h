//===- DeviceRow.h - A sequence of devices, and the work they do -*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_DEVICEROW_H
#define CLEAVE_PARTITIONER_CUTTING_DEVICEROW_H

#include "partitioner/graph/GroupGraph.h"
#include "partitioner/graph/LimitRange.h"
#include <cstdint>
#include <limits>
#include <vector>

namespace cleave {

/// A sequence of devices. The groups on the first k devices are a downset for every k. Accelerators keep this
/// order; CPUs may stand anywhere in it.
struct DeviceRow {
  struct Accelerator {
    /// Limit of the sum of sizes. The caller has already added the tolerance for rounding; sums are compared
    /// without one.
    double sizeLimit = std::numeric_limits<double>::infinity();
    /// Load of an accelerator besides the latencies of its groups. `perReceived`, `perSent`: load added per
    /// unit of net cost received from devices before it, or sent to devices after it. `toReceive`: load added
    /// once if anything is received.
    double perReceived = 1, perSent = 1, toReceive = 0;
    /// Index of its kind, as in GroupGraph::Group::latencyOn.
    uint32_t kind = 0;
    bool operator==(const Accelerator &) const = default;
  };
  std::vector<Accelerator> accelerators;
  uint32_t cpus = 0;
  /// True: each device must have groups, and ties in maxLoad go to the most even placement. False: all
  /// accelerators are alike and may stay empty.
  bool isPipeline = false;
  /// Records the sizes compared with limits, if all accelerators have one limit in common; may be null.
  LimitRange *seen = nullptr;

  /// Number of states of the dynamic program.
  uint64_t statesOf(uint64_t downsets) const { return downsets * (accelerators.size() + 1) * (cpus + 1); }
};

/// Latencies on several kinds of accelerators as one amount of work: in time L an accelerator does at most L
/// times its kind's rate, whatever groups it has. The work of a group is its minimum over the kinds of rate
/// times latency. Any positive rates would do; these are in inverse proportion to the total latency of all
/// groups on each kind, which is exact where kinds differ by a constant factor. For one kind, the rate is 1.
class NormalizedWork {
public:
  explicit NormalizedWork(const GroupGraph &graph);

  /// Work of a group; 0 if no accelerator supports it.
  double of(const GroupGraph::Group &group) const;
  /// Work that the accelerators from `first` on do per unit of load.
  double rateFrom(const DeviceRow &devices, size_t first) const;

private:
  /// By kind.
  std::vector<double> rates;
};

/// Lower bound of the maxLoad of every contiguous placement. No group is faster than on its fastest device,
/// and all devices together do all the work, where one second of a CPU replaces at most as much accelerator
/// work as the best group allows (max of NormalizedWork / cpuLatency). Infinite if a group fits no device.
double lowerBoundOf(const GroupGraph &graph, const DeviceRow &devices);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_DEVICEROW_H
