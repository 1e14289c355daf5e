//===- SetupWatch.h - Programs whose set-up does not end --------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SETUPWATCH_H
#define CLEAVE_RUNTIME_SETUPWATCH_H

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace cleave::runtime {

/// While it lives, `overdue` is called once a program's set-up has taken longer than `limit`, by another
/// thread: the one that waits is in a kernel.
class SetupWatch {
public:
  /// Without `overdue` it does nothing.
  SetupWatch(std::chrono::seconds limit, const std::function<void(const std::string &)> &overdue);
  ~SetupWatch();

private:
  void watch(std::chrono::seconds limit);

  const std::function<void(const std::string &)> &overdue;
  std::mutex mutex;
  std::condition_variable changed;
  bool isOver = false;
  std::thread thread;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SETUPWATCH_H
