//===- SetupWatch.h - Plans whose loading does not end ----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_SETUPWATCH_H
#define CLEAVE_RUNTIME_EXECUTOR_SETUPWATCH_H

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace cleave::runtime {

class Executor;

/// While it lives, `overdue` is called once this thread has loaded a plan for longer than `limit`, by another
/// thread: the one that loads is in a kernel. Each session has its own.
class SetupWatch {
public:
  /// Without `overdue` it does nothing.
  SetupWatch(std::chrono::seconds limit, std::function<void(const std::string &)> overdue);
  ~SetupWatch();
  SetupWatch(const SetupWatch &) = delete;
  SetupWatch &operator=(const SetupWatch &) = delete;

  /// While it lives, this thread runs the set-up of a program of `rank`, which the watch then tells of.
  class Scope {
  public:
    Scope(uint32_t rank, const Executor &executor);
    /// From then on the watch does not look at the executor.
    ~Scope();
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;
  };

private:
  void watch(std::chrono::seconds limit);
  void setProgram(uint32_t rank, const Executor *executor);

  const std::function<void(const std::string &)> overdue;
  std::mutex mutex;
  std::condition_variable changed;
  bool isOver = false;
  /// Whose set-up runs; null between two. Held by `mutex`, so that it is there while it is looked at.
  const Executor *executor = nullptr;
  uint32_t rank = 0;
  std::thread thread;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_SETUPWATCH_H
