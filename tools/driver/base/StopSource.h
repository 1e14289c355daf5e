//===- StopSource.h - Stops a mesh search early -----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_STOPSOURCE_H
#define CLEAVE_TOOLS_DRIVER_BASE_STOPSOURCE_H

#include <atomic>

namespace cleave {

/// Stops a search from another thread, a signal handler or, if it is in shared memory, another process.
/// Lock-free. One search at a time.
class StopSource {
public:
  /// Asks the search to end with its best result so far. Returns false, and does nothing, if there is nothing
  /// to stop: no result yet, the search is over, or a stop was requested before.
  bool requestStop() {
    State expected = State::Open;
    return state.compare_exchange_strong(expected, State::Requested);
  }

  // For the search: requests are accepted from its first result until its choice is made into a plan.
  void open() {
    State expected = State::Closed;
    state.compare_exchange_strong(expected, State::Open);
  }
  bool isStopRequested() const { return state == State::Requested; }
  void close() { state = State::Closed; }

private:
  enum class State { Closed, Open, Requested };
  std::atomic<State> state{State::Closed};
  static_assert(decltype(state)::is_always_lock_free);
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_STOPSOURCE_H
