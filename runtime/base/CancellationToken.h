//===- CancellationToken.h - How long ranks wait for each other ----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_CANCELLATIONTOKEN_H
#define CLEAVE_RUNTIME_BASE_CANCELLATIONTOKEN_H

#include <chrono>

namespace cleave::runtime {

/// What those that wait for other ranks have to know of a request. Called without any lock of theirs.
class CancellationToken {
public:
  virtual ~CancellationToken() = default;
  /// Whether waiting is of no use any more. Who makes it true wakes those that wait.
  virtual bool isOver() const = 0;
  virtual std::chrono::steady_clock::time_point deadline() = 0;
  /// The deadline has passed for one that waits; isOver from now on.
  virtual void expire() = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_CANCELLATIONTOKEN_H
