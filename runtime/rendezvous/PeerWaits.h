//===- PeerWaits.h - Timeouts of waits for other processes ------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_RENDEZVOUS_PEERWAITS_H
#define CLEAVE_RUNTIME_RENDEZVOUS_PEERWAITS_H

#include "llvm/ADT/ArrayRef.h"
#include <chrono>
#include <cstdint>
#include <string>

namespace cleave::runtime {

using PeerClock = std::chrono::steady_clock;

/// Status of a process while it loads the plan.
inline constexpr char kLoadingStatus[] = "is loading the plan";

/// Longest wait for processes that show no progress, and longest wait in all for processes that load the
/// plan.
struct PeerLimits {
  std::chrono::seconds timeout, loading;
};

/// Status of another process, as read from the store.
struct KnownPeer {
  /// The last entry, `COUNT STATUS`, and its status, printable.
  std::string beat, status;
  /// When the last new entry was seen, whatever its status.
  PeerClock::time_point lastBeat{};
  /// When the status last changed.
  PeerClock::time_point lastStatusChange{};

  void update(const std::string &beat, PeerClock::time_point now);
  /// When it last showed progress: a new status or, while it loads, a new beat.
  PeerClock::time_point progressed() const;
};

/// A wait with a timeout, counted from its beginning or the last progress of another process, whichever is
/// later.
struct PeerWait {
  PeerClock::time_point begin;
  std::string what;

  /// `30 s for what all ranks report` if the wait has taken too long; else empty.
  /// \param known  by rank; `own` is this process.
  std::string timeoutText(PeerClock::time_point now, llvm::ArrayRef<KnownPeer> known, uint32_t own,
                          PeerLimits limits) const;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RENDEZVOUS_PEERWAITS_H
