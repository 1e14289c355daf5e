//===- Activity.h - What the threads of this process run --------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_ACTIVITY_H
#define CLEAVE_RUNTIME_EXECUTOR_ACTIVITY_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace cleave::runtime {

class Executor;

/// While it lives, this thread runs a program of `rank`: for who tells of it from outside, after a crash or
/// from beside a kernel without end.
class ActivityScope {
public:
  ActivityScope(uint32_t rank, const Executor &executor);
  ~ActivityScope();
  ActivityScope(const ActivityScope &) = delete;
  ActivityScope &operator=(const ActivityScope &) = delete;

private:
  /// Of the scope around this one, whose place it took.
  size_t outer;
};

/// Writes what this thread runs, as `rank 0 (stage 1): transformer.h.3.attn: aten::addmm`, and ends it with a
/// zero. Of a thread that helps others, what those run, with `or` in between. Empty where nothing runs. Safe
/// in signal handlers.
void describeActivity(char *text, size_t size);

/// What a program of `rank` runs, in the same words.
std::string describeProgram(uint32_t rank, const Executor &executor);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_ACTIVITY_H
