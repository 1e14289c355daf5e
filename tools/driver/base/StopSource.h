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
  /// to stop: no result yet, the search is over, or it was asked before.
  bool ask() {
    State listening = State::Listening;
    return state.compare_exchange_strong(listening, State::Asked);
  }

  // For the search: it listens from its first result until its choice is made into a plan.
  void listen() {
    State deaf = State::Deaf;
    state.compare_exchange_strong(deaf, State::Listening);
  }
  bool isAsked() const { return state == State::Asked; }
  void close() { state = State::Deaf; }

private:
  enum class State { Deaf, Listening, Asked };
  std::atomic<State> state{State::Deaf};
  static_assert(decltype(state)::is_always_lock_free);
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_STOPSOURCE_H
