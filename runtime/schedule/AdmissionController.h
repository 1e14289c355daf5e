//===- AdmissionController.h - Limits requests under way --------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SCHEDULE_ADMISSIONCONTROLLER_H
#define CLEAVE_RUNTIME_SCHEDULE_ADMISSIONCONTROLLER_H

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>

namespace cleave::runtime {

/// Limits the number of requests under way, and records when the last one ended. Thread-safe.
class AdmissionController {
public:
  using Clock = std::chrono::steady_clock;

  /// \param limit  maximum of requests under way; at least 1.
  AdmissionController(std::chrono::seconds timeout, size_t limit) : timeout(timeout), limit(limit) {}

  /// Deleter of an Admission. Destroy an Admission only when no rank works on its request any more; that
  /// makes room for another. The AdmissionController must outlive it.
  struct Leave {
    void operator()(AdmissionController *admissions) const { admissions->leave(); }
  };
  using Admission = std::unique_ptr<AdmissionController, Leave>;
  /// Waits until there is room for a request. Null if there was none for `timeout` after the last request
  /// ended.
  Admission enter();
  /// Notes that a request has ended: with its result, or failed while ranks may still work on it. The
  /// deadlines of the requests behind it count from now on.
  void recordEnd();
  Clock::time_point lastEnd() const;

  const std::chrono::seconds timeout;

private:
  void leave();

  const size_t limit;
  mutable std::mutex mutex;
  std::condition_variable changed;
  size_t underWay = 0;
  Clock::time_point ended{};
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SCHEDULE_ADMISSIONCONTROLLER_H
