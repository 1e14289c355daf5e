//===- AdmissionController.cpp --------------------------------------------===//
#include "runtime/schedule/AdmissionController.h"
#include <algorithm>

namespace cleave::runtime {

AdmissionController::Admission AdmissionController::enter() {
  std::unique_lock lock(mutex);
  const Clock::time_point begun = Clock::now();
  while (underWay >= limit) {
    // Recomputed after each wait: it moves when requests end.
    const Clock::time_point deadline = std::max(begun, ended) + timeout;
    if (Clock::now() >= deadline)
      return nullptr;
    changed.wait_until(lock, deadline);
  }
  ++underWay;
  return Admission(this);
}

void AdmissionController::recordEnd() {
  std::lock_guard lock(mutex);
  ended = Clock::now();
}

void AdmissionController::leave() {
  {
    std::lock_guard lock(mutex);
    --underWay;
  }
  changed.notify_one();
}

AdmissionController::Clock::time_point AdmissionController::lastEnd() const {
  std::lock_guard lock(mutex);
  return ended;
}

} // namespace cleave::runtime
