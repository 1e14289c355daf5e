//===- StopSource.h - Ends a search for a mesh early ------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_STOPSOURCE_H
#define CLEAVE_TOOLS_DRIVER_BASE_STOPSOURCE_H

#include <atomic>

namespace cleave {

/// Ends a search from outside: from another thread, a signal handler, or, where it lies in memory that both
/// have, another process. One search at a time.
class StopSource {
public:
  /// Ends the search with the best that it has found. False, and nothing happens, where there is nothing to
  /// end: it has found nothing yet, is over, or was asked before.
  bool ask() {
    State listening = State::Listening;
    return state.compare_exchange_strong(listening, State::Asked);
  }

  // What the search does: it listens from the first that it finds, until what it chose is made.
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
