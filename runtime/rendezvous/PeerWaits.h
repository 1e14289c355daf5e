//===- PeerWaits.h - How long other processes are waited for ----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_RENDEZVOUS_PEERWAITS_H
#define CLEAVE_RUNTIME_RENDEZVOUS_PEERWAITS_H

#include "llvm/ADT/ArrayRef.h"
#include <chrono>
#include <cstdint>
#include <string>

namespace cleave::runtime {

using PeerClock = std::chrono::steady_clock;

/// What a process says of itself while it loads the plan.
inline constexpr char kLoadingStatus[] = "is loading the plan";

/// How long others are waited for that neither come nor move on, and in all for those that load.
struct PeerLimits {
  std::chrono::seconds timeout, loading;
};

/// What is known of a process from the store.
struct KnownPeer {
  /// What it has written last, `COUNT STATUS`, and of that the status, printable.
  std::string beat, status;
  PeerClock::time_point changed{};
  /// When it last was at something else.
  PeerClock::time_point moved{};

  void note(const std::string &beat, PeerClock::time_point now);
  /// When it last showed that waiting for it is of use: that it moved on, or, while it loads, that it lives.
  PeerClock::time_point progressed() const;
};

/// A wait that must end in time, counted from when it began and another process last progressed: what others
/// still do of requests before it has its own deadline.
struct PeerWait {
  PeerClock::time_point begin;
  std::string what;

  /// `30 s for what all ranks report` where that is too long; else empty.
  /// \param known  of all processes, of which this is `own`.
  std::string overdue(PeerClock::time_point now, llvm::ArrayRef<KnownPeer> known, uint32_t own,
                      PeerLimits limits) const;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RENDEZVOUS_PEERWAITS_H
