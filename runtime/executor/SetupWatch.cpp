//===- SetupWatch.cpp - Timeout of loading a plan -------------------------===//
#include "runtime/executor/SetupWatch.h"
#include "runtime/executor/Activity.h"
#include <utility>

namespace cleave::runtime {

/// Watch of the session that this thread opens; null if there is none.
static thread_local SetupWatch *current = nullptr;

SetupWatch::SetupWatch(std::chrono::seconds limit, std::function<void(const std::string &)> told)
    : onTimeout(std::move(told)) {
  if (!onTimeout)
    return;
  thread = std::thread([this, limit] { watch(limit); });
  current = this;
}

SetupWatch::~SetupWatch() {
  if (!thread.joinable())
    return;
  current = nullptr;
  {
    std::lock_guard lock(mutex);
    isOver = true;
  }
  changed.notify_all();
  thread.join();
}

SetupWatch::Scope::Scope(uint32_t rank, const Executor &executor) {
  if (current)
    current->setProgram(rank, &executor);
}

SetupWatch::Scope::~Scope() {
  if (current)
    current->setProgram(0, nullptr);
}

void SetupWatch::setProgram(uint32_t number, const Executor *program) {
  std::lock_guard lock(mutex);
  rank = number;
  executor = program;
}

void SetupWatch::watch(std::chrono::seconds limit) {
  std::string what;
  {
    std::unique_lock lock(mutex);
    if (changed.wait_for(lock, limit, [&] { return isOver; }))
      return;
    what = executor ? describeProgram(rank, *executor) + " prepares what requests read; " : "";
  }
  onTimeout("not loaded after " + std::to_string(limit.count()) + " s: " + what +
            "allow more time (--load-timeout)");
}

} // namespace cleave::runtime
