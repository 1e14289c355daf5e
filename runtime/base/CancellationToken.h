//===- CancellationToken.h - Deadline of a request --------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_CANCELLATIONTOKEN_H
#define CLEAVE_RUNTIME_BASE_CANCELLATIONTOKEN_H

#include <chrono>

namespace cleave::runtime {

/// Deadline and cancellation of a request, as seen by threads that wait for other ranks. Do not call it while
/// holding a lock of your own.
class CancellationToken {
public:
  virtual ~CancellationToken() = default;
  /// True once the request is cancelled. Whoever cancels it also wakes the waiting threads.
  virtual bool isCancelled() const = 0;
  virtual std::chrono::steady_clock::time_point deadline() = 0;
  /// Called by a waiting thread that finds the deadline passed. Cancels the request.
  virtual void expire() = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_CANCELLATIONTOKEN_H
