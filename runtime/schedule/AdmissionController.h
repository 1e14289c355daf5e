//===- AdmissionController.h - The requests of a session that are under way -*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SCHEDULE_ADMISSIONCONTROLLER_H
#define CLEAVE_RUNTIME_SCHEDULE_ADMISSIONCONTROLLER_H

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>

namespace cleave::runtime {

/// Counts requests, holds new ones back while there are too many, and knows when the last one ended.
class AdmissionController {
public:
  using Clock = std::chrono::steady_clock;

  /// \param limit  most requests under way at one time; at least 1.
  AdmissionController(std::chrono::seconds timeout, size_t limit) : timeout(timeout), limit(limit) {}

  /// Counts a request until it is destroyed, which makes room: no rank works on the request any more. The
  /// AdmissionController must outlive it.
  struct Leave {
    void operator()(AdmissionController *admissions) const { admissions->leave(); }
  };
  using Admission = std::unique_ptr<AdmissionController, Leave>;
  /// Waits until there is room for a request; null when there was none for `timeout` after the last request
  /// ended.
  Admission enter();
  /// One has ended: with its result, or failed while ranks still work on it. Those behind it wait from now
  /// on.
  void noteEnd();
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
