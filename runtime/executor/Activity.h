//===- Activity.h - What each thread of this process runs -------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_ACTIVITY_H
#define CLEAVE_RUNTIME_EXECUTOR_ACTIVITY_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace cleave::runtime {

class Executor;

/// While it lives, this thread runs a program of `rank`. Crash handlers and watchdog threads read it.
class ActivityScope {
public:
  ActivityScope(uint32_t rank, const Executor &executor);
  ~ActivityScope();
  ActivityScope(const ActivityScope &) = delete;
  ActivityScope &operator=(const ActivityScope &) = delete;

private:
  /// Index of the enclosing scope's entry in the table that signal handlers read; restored by the destructor.
  size_t outerEntry;
};

/// Writes what this thread runs, `rank 0 (stage 1): transformer.h.3.attn: aten::addmm`, null-terminated. On a
/// thread that runs no program (an intra-op thread) writes what the threads with programs run, joined by
/// `or`. Writes an empty text if nothing runs. Async-signal-safe.
void describeActivity(char *text, size_t size);

/// What a program of `rank` runs, in the same format.
std::string describeProgram(uint32_t rank, const Executor &executor);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_ACTIVITY_H
