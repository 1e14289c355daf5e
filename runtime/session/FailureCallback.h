//===- FailureCallback.h - Telling a user of a failure ----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SESSION_FAILURECALLBACK_H
#define CLEAVE_RUNTIME_SESSION_FAILURECALLBACK_H

#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace cleave::runtime {

/// Calls a function of the user's once, in a thread of its own: it may block, and destroy what owns this.
class FailureCallback {
public:
  using Function = std::function<void(const std::string &)>;
  /// Starts the thread.
  explicit FailureCallback(Function function);
  /// Waits until a call has returned, unless it is the one that destroys this.
  ~FailureCallback();
  FailureCallback(const FailureCallback &) = delete;
  FailureCallback &operator=(const FailureCallback &) = delete;

  /// Has the function called with `message`, and returns at once. Of any thread; only the first call counts.
  void call(const std::string &message);

private:
  struct State;
  /// Shared with the thread, which may outlive this.
  const std::shared_ptr<State> state;
  std::thread thread;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_FAILURECALLBACK_H
