//===- PeerWaits.cpp - Timeouts of waits for other processes --------------===//
#include "runtime/rendezvous/PeerWaits.h"
#include "codegen/plan/text/Printable.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>

namespace cleave::runtime {

/// Longest status, in bytes.
static constexpr size_t kLongestStatus = 1 << 10;

void KnownPeer::update(const std::string &found, PeerClock::time_point now) {
  if (found == beat)
    return;
  std::string said = plan::printable(llvm::StringRef(found).split(' ').second, kLongestStatus);
  if (said != status)
    lastStatusChange = now;
  beat = found;
  status = std::move(said);
  lastBeat = now;
}

PeerClock::time_point KnownPeer::progressed() const {
  return status == kLoadingStatus ? lastBeat : lastStatusChange;
}

std::string PeerWait::timeoutText(PeerClock::time_point now, llvm::ArrayRef<KnownPeer> known, uint32_t own,
                                  PeerLimits limits) const {
  PeerClock::time_point progressed = begin, lastStatusChange = begin;
  for (uint32_t rank = 0; rank < known.size(); ++rank)
    if (rank != own) {
      progressed = std::max(progressed, known[rank].progressed());
      lastStatusChange = std::max(lastStatusChange, known[rank].lastStatusChange);
    }
  // Whoever can write to the store can fake progress forever, so there is a total limit: other processes load
  // their plan, then finish the requests under way, whose default number is 2 × ranks + 2.
  const std::chrono::seconds total = limits.loading + limits.timeout * (2 * known.size() + 2);
  if (std::chrono::floor<std::chrono::seconds>(now - begin) >= total)
    return std::to_string(total.count()) + " s " + what;
  const std::chrono::seconds longest = std::max(limits.timeout, limits.loading);
  if (now >= progressed + limits.timeout)
    return std::to_string(limits.timeout.count()) + " s " + what;
  if (now >= lastStatusChange + longest)
    return std::to_string(longest.count()) + " s " + what + ", allow more time (--load-timeout)";
  return "";
}

} // namespace cleave::runtime
