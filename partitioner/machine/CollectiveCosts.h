//===- CollectiveCosts.h - Seconds of collectives ---------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_COLLECTIVECOSTS_H
#define CLEAVE_PARTITIONER_MACHINE_COLLECTIVECOSTS_H

#include "ir/semantics/KernelKinds.h"
#include "partitioner/machine/Link.h"
#include "partitioner/machine/RateTable.h"
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace cleave {

/// Costs of collectives over a group of ranks in a ring: a latency per step, plus the bytes that a rank sends
/// divided by the rate.
class CollectiveCosts {
public:
  struct Measured {
    /// Latency of all steps, measured with `ranks` ranks; scaled to other numbers of ranks unless `ranks` is
    /// 0.
    double latencySeconds = 0;
    unsigned ranks = 2;
    /// Bytes that a rank sends (`bytesSent`) per second, by the bytes of the whole tensor.
    RateTable bytesPerSecond;
    bool operator==(const Measured &) const = default;
  };

  /// Costs from the link alone, until measurements are set.
  /*implicit*/ CollectiveCosts(const Link &link = {}) : link(link) {}

  /// Bytes that a rank sends for a tensor of `bytes` bytes in all. In a ring (Thakur et al. 2005) it sends
  /// all but its own part for an all-gather or reduce-scatter, and twice that for an all-reduce. It passes on
  /// the whole tensor for a broadcast, and in an all-to-all it sends its own part except the piece that it
  /// keeps.
  static double bytesSent(CollectiveKind kind, double bytes, unsigned ranks) {
    if (kind == CollectiveKind::Broadcast)
      return bytes;
    const double others = bytes * (ranks - 1) / ranks;
    return kind == CollectiveKind::AllReduce  ? 2 * others
           : kind == CollectiveKind::AllToAll ? others / ranks
                                              : others;
  }
  /// Messages that a rank sends one after the other: once round the ring, twice for an all-reduce.
  static double steps(CollectiveKind kind, unsigned ranks) {
    return (kind == CollectiveKind::AllReduce ? 2.0 : 1.0) * (ranks - 1);
  }
  double bytesPerSecond(CollectiveKind kind, double bytes) const {
    double slowest = ownRate(kind, bytes);
    for (const Link &other : otherLinks)
      slowest = std::min(slowest, other.bytesPerSecond);
    return slowest;
  }
  double seconds(CollectiveKind kind, double bytes, unsigned ranks) const {
    double slowest = latency(kind, ranks) + bytesSent(kind, bytes, ranks) / ownRate(kind, bytes);
    for (const Link &other : otherLinks)
      slowest = std::max(slowest, CollectiveCosts(other).seconds(kind, bytes, ranks));
    return slowest;
  }
  /// Adds a link between some ranks of the group that differs from `link`; a collective is as slow as with
  /// the slowest link.
  void addLink(const Link &slower) {
    if (std::find(otherLinks.begin(), otherLinks.end(), slower) == otherLinks.end())
      otherLinks.push_back(slower);
  }
  bool operator==(const CollectiveCosts &) const = default;

  /// Nothing for a collective that was not measured.
  std::optional<Measured> &measurementOf(CollectiveKind kind) { return measured[size_t(kind)]; }
  const std::optional<Measured> &measurementOf(CollectiveKind kind) const { return measured[size_t(kind)]; }

private:
  double ownRate(CollectiveKind kind, double bytes) const {
    return measurementOf(kind) ? measurementOf(kind)->bytesPerSecond.at({bytes}) : link.bytesPerSecond;
  }
  double latency(CollectiveKind kind, unsigned ranks) const {
    if (!measurementOf(kind))
      return link.latencySeconds * steps(kind, ranks);
    return measurementOf(kind)->latencySeconds *
           (measurementOf(kind)->ranks ? steps(kind, ranks) / steps(kind, measurementOf(kind)->ranks) : 1);
  }

  Link link;
  std::vector<Link> otherLinks;
  std::array<std::optional<Measured>, std::size(kCollectiveKinds)> measured;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_COLLECTIVECOSTS_H
