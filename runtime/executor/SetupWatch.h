//===- SetupWatch.h - Timeout of loading a plan -----------------*- C++ -*-===//
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

/// Calls `onTimeout` if this thread is still loading a plan after `limit`, while the object lives. The call
/// comes from another thread, as the loading thread is in a kernel. Each session has its own watch.
class SetupWatch {
public:
  /// Does nothing if `onTimeout` is empty.
  SetupWatch(std::chrono::seconds limit, std::function<void(const std::string &)> onTimeout);
  ~SetupWatch();
  SetupWatch(const SetupWatch &) = delete;
  SetupWatch &operator=(const SetupWatch &) = delete;

  /// While it lives, this thread runs the set-up of a program of `rank`, which the watch names in its
  /// message.
  class Scope {
  public:
    Scope(uint32_t rank, const Executor &executor);
    /// After it returns, the watch does not access the executor.
    ~Scope();
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;
  };

private:
  void watch(std::chrono::seconds limit);
  void setProgram(uint32_t rank, const Executor *executor);

  const std::function<void(const std::string &)> onTimeout;
  std::mutex mutex;
  std::condition_variable changed;
  bool isOver = false;
  /// The executor whose set-up runs; null between two. Guarded by `mutex`, so that it lives while the watch
  /// reads it.
  const Executor *executor = nullptr;
  uint32_t rank = 0;
  std::thread thread;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_SETUPWATCH_H
