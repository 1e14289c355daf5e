//===- AdmissionController.cpp --------------------------------------------===//
#include "runtime/schedule/AdmissionController.h"
#include <algorithm>

namespace cleave::runtime {

AdmissionController::Admission AdmissionController::enter(std::optional<uint64_t> sequence) {
  return enter(1, sequence);
}

AdmissionController::Admission AdmissionController::enterAlone() { return enter(limit, std::nullopt); }

AdmissionController::Admission AdmissionController::enter(size_t room, std::optional<uint64_t> sequence) {
  std::unique_lock lock(mutex);
  const Clock::time_point begun = Clock::now();
  const bool isAlone = room == limit;
  auto mustWait = [&] {
    return underWay + room > limit || (!isAlone && waitingAlone) ||
           (sequence && sequences.contains(*sequence));
  };
  waitingAlone += isAlone;
  bool isLate = false;
  while (!isLate && mustWait()) {
    // Recomputed after each wait: it moves when requests end.
    const Clock::time_point deadline = std::max(begun, ended) + timeout;
    isLate = Clock::now() >= deadline;
    if (!isLate)
      changed.wait_until(lock, deadline);
  }
  waitingAlone -= isAlone;
  if (isLate) {
    changed.notify_all();
    return nullptr;
  }
  underWay += room;
  if (sequence)
    sequences.insert(*sequence);
  return Admission(this, {room, sequence});
}

void AdmissionController::recordEnd() {
  std::lock_guard lock(mutex);
  ended = Clock::now();
}

void AdmissionController::leave(size_t room, std::optional<uint64_t> sequence) {
  {
    std::lock_guard lock(mutex);
    underWay -= room;
    if (sequence)
      sequences.erase(*sequence);
  }
  changed.notify_all();
}

AdmissionController::Clock::time_point AdmissionController::lastEnd() const {
  std::lock_guard lock(mutex);
  return ended;
}

} // namespace cleave::runtime
