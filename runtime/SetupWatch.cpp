//===- SetupWatch.cpp - Programs whose set-up does not end ----------------===//
#include "runtime/SetupWatch.h"
#include "runtime/Activity.h"

namespace cleave::runtime {

static constexpr std::chrono::milliseconds kTick{50};

SetupWatch::SetupWatch(std::chrono::seconds limit, const std::function<void(const std::string &)> &overdue)
    : overdue(overdue) {
  if (overdue)
    thread = std::thread([this, limit] { watch(limit); });
}

SetupWatch::~SetupWatch() {
  {
    std::lock_guard lock(mutex);
    isOver = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

void SetupWatch::watch(std::chrono::seconds limit) {
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, kTick, [&] { return isOver; })) {
    const std::string what = describeLongSetup(limit);
    if (what.empty())
      continue;
    lock.unlock();
    return overdue("not ready after " + std::to_string(limit.count()) + " s: " + what +
                   " prepares what requests read; allow more time (--timeout)");
  }
}

} // namespace cleave::runtime
