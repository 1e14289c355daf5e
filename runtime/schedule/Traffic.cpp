//===- Traffic.cpp --------------------------------------------------------===//
#include "runtime/schedule/Traffic.h"
#include <algorithm>

namespace cleave::runtime {

Traffic::Admission Traffic::enter() {
  std::unique_lock lock(mutex);
  const Clock::time_point begun = Clock::now();
  while (underWay >= limit) {
    // Looked up anew after each wait: it moves while requests end.
    const Clock::time_point deadline = std::max(begun, ended) + timeout;
    if (Clock::now() >= deadline)
      return nullptr;
    changed.wait_until(lock, deadline);
  }
  ++underWay;
  return Admission(this);
}

void Traffic::noteEnd() {
  std::lock_guard lock(mutex);
  ended = Clock::now();
}

void Traffic::leave() {
  {
    std::lock_guard lock(mutex);
    --underWay;
  }
  changed.notify_one();
}

Traffic::Clock::time_point Traffic::lastEnd() const {
  std::lock_guard lock(mutex);
  return ended;
}

} // namespace cleave::runtime
