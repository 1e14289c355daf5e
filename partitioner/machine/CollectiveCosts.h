//===- CollectiveCosts.h - Seconds of what ranks do together ----*- C++ -*-===//
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

/// What collectives over the ranks of a group cost, in a ring: a latency a step, and what a rank sends over
/// the rate.
class CollectiveCosts {
public:
  struct Measured {
    /// Of `ranks` ranks, all steps; 0: of any number.
    double latencySeconds = 0;
    unsigned ranks = 2;
    /// Bytes that a rank sends (`bytesSent`) a second, by the bytes of the whole tensor.
    RateTable bytesPerSecond;
    bool operator==(const Measured &) const = default;
  };

  /// By the link, except where measured.
  /*implicit*/ CollectiveCosts(const Link &link = {}) : link(link) {}

  /// What a rank sends of a tensor that has `bytes` as a whole: in a ring (Thakur et al. 2005) all but its
  /// own part, and of a sum that all get twice that; of a broadcast all, passed on in pieces; and where parts
  /// along one dimension become parts along another, all of its own part but what it keeps.
  static double bytesSent(CollectiveKind kind, double bytes, unsigned ranks) {
    if (kind == CollectiveKind::Broadcast)
      return bytes;
    const double others = bytes * (ranks - 1) / ranks;
    return kind == CollectiveKind::AllReduce  ? 2 * others
           : kind == CollectiveKind::AllToAll ? others / ranks
                                              : others;
  }
  /// Messages that a rank sends one after the other: round the ring once, and of a sum that all get twice.
  static double steps(CollectiveKind kind, unsigned ranks) {
    return (kind == CollectiveKind::AllReduce ? 2.0 : 1.0) * (ranks - 1);
  }
  double bytesPerSecond(CollectiveKind kind, double bytes) const {
    double slowest = ownRate(kind, bytes);
    for (const Link &other : linkOverrides)
      slowest = std::min(slowest, other.bytesPerSecond);
    return slowest;
  }
  double seconds(CollectiveKind kind, double bytes, unsigned ranks) const {
    double slowest = latency(kind, ranks) + bytesSent(kind, bytes, ranks) / ownRate(kind, bytes);
    for (const Link &other : linkOverrides)
      slowest = std::max(slowest, CollectiveCosts(other).seconds(kind, bytes, ranks));
    return slowest;
  }
  /// Some ranks of the group have this link between them: all go at the pace of the slowest.
  void add(const Link &unlike) {
    if (std::find(linkOverrides.begin(), linkOverrides.end(), unlike) == linkOverrides.end())
      linkOverrides.push_back(unlike);
  }
  bool operator==(const CollectiveCosts &) const = default;

  std::optional<Measured> &of(CollectiveKind kind) { return measured[size_t(kind)]; }
  const std::optional<Measured> &of(CollectiveKind kind) const { return measured[size_t(kind)]; }

private:
  double ownRate(CollectiveKind kind, double bytes) const {
    return of(kind) ? of(kind)->bytesPerSecond.at({bytes}) : link.bytesPerSecond;
  }
  double latency(CollectiveKind kind, unsigned ranks) const {
    if (!of(kind))
      return link.latencySeconds * steps(kind, ranks);
    return of(kind)->latencySeconds *
           (of(kind)->ranks ? steps(kind, ranks) / steps(kind, of(kind)->ranks) : 1);
  }

  Link link;
  std::vector<Link> linkOverrides;
  std::array<std::optional<Measured>, std::size(kCollectiveKinds)> measured;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_COLLECTIVECOSTS_H
