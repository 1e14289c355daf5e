//===- FailureCallback.h - Reports a failure to the user --------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SESSION_FAILURECALLBACK_H
#define CLEAVE_RUNTIME_SESSION_FAILURECALLBACK_H

#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace cleave::runtime {

/// Calls a user's function once, on a thread of its own: the function may block, and may destroy the owner of
/// this object.
class FailureCallback {
public:
  using Function = std::function<void(const std::string &)>;
  /// Starts the thread.
  explicit FailureCallback(Function function);
  /// Waits for a running call, unless that call itself destroys this object.
  ~FailureCallback();
  FailureCallback(const FailureCallback &) = delete;
  FailureCallback &operator=(const FailureCallback &) = delete;

  /// Schedules the function with `message`, and returns at once. Thread-safe; only the first call counts.
  void call(const std::string &message);

private:
  struct State;
  /// Shared with the thread, which may outlive this object.
  const std::shared_ptr<State> state;
  std::thread thread;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_FAILURECALLBACK_H
