//===- CollectiveCosts.h - Seconds of what ranks do together ----*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_COLLECTIVECOSTS_H
#define CLEAVE_PARTITIONER_COLLECTIVECOSTS_H

#include "ir/semantics/KernelKinds.h"
#include "partitioner/RateTable.h"
#include "partitioner/StageGraph.h"
#include <array>
#include <optional>

namespace cleave {

/// What collectives over the ranks of a group cost: a latency, and what a rank sends over the rate.
class CollectiveCosts {
public:
  struct Measured {
    double latencySeconds = 0;
    /// Bytes that a rank sends (`bytesSent`) a second, by the bytes of the whole tensor.
    RateTable bytesPerSecond;
    bool operator==(const Measured &) const = default;
  };

  /// Those of the link, except where measured.
  /*implicit*/ CollectiveCosts(const Link &link = {}) : link(link) {}

  /// What a rank sends of a tensor that has `bytes` as a whole: in a ring (Thakur et al. 2005) all but its own
  /// part, and of a sum that all get twice that; of a broadcast all, passed on in pieces.
  static double bytesSent(CollectiveKind kind, double bytes, unsigned ranks) {
    if (kind == CollectiveKind::Broadcast)
      return bytes;
    return (kind == CollectiveKind::AllReduce ? 2 : 1) * bytes * (ranks - 1) / ranks;
  }
  double bytesPerSecond(CollectiveKind kind, double bytes) const {
    return of(kind) ? of(kind)->bytesPerSecond.at({bytes}) : link.bytesPerSecond;
  }
  double seconds(CollectiveKind kind, double bytes, unsigned ranks) const {
    return (of(kind) ? of(kind)->latencySeconds : link.latencySeconds) +
           bytesSent(kind, bytes, ranks) / bytesPerSecond(kind, bytes);
  }

  std::optional<Measured> &of(CollectiveKind kind) { return measured[size_t(kind)]; }
  const std::optional<Measured> &of(CollectiveKind kind) const { return measured[size_t(kind)]; }

private:
  Link link;
  std::array<std::optional<Measured>, std::size(kCollectiveKinds)> measured;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_COLLECTIVECOSTS_H
