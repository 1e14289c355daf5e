//===- FailureCallback.cpp ------------------------------------------------===//
#include "runtime/session/FailureCallback.h"
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace cleave::runtime {

struct FailureCallback::State {
  explicit State(Function function) : function(std::move(function)) {}
  void work();

  const Function function;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> message;
  bool isEnding = false;
};

void FailureCallback::State::work() {
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return message || isEnding; });
    if (!message)
      return;
  }
  function(*message);
}

FailureCallback::FailureCallback(Function function)
    : state(std::make_shared<State>(std::move(function))), thread([state = state] { state->work(); }) {}

FailureCallback::~FailureCallback() {
  {
    std::lock_guard lock(state->mutex);
    state->isEnding = true;
  }
  state->changed.notify_one();
  if (thread.get_id() == std::this_thread::get_id())
    thread.detach();
  else
    thread.join();
}

void FailureCallback::call(const std::string &message) {
  // From now on the function may destroy this object.
  const std::shared_ptr<State> kept = state;
  {
    std::lock_guard lock(kept->mutex);
    if (!kept->message)
      kept->message = message;
  }
  kept->changed.notify_one();
}

} // namespace cleave::runtime
