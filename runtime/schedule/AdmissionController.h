//===- AdmissionController.h - Limits requests under way --------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SCHEDULE_ADMISSIONCONTROLLER_H
#define CLEAVE_RUNTIME_SCHEDULE_ADMISSIONCONTROLLER_H

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

namespace cleave::runtime {

/// Admits up to `limit` requests at a time, and at most one for each sequence id. Thread-safe.
class AdmissionController {
public:
  using Clock = std::chrono::steady_clock;

  /// \param limit  maximum of requests under way; at least 1.
  AdmissionController(std::chrono::seconds timeout, size_t limit) : timeout(timeout), limit(limit) {}

  /// Deleter of an Admission. Destroy an Admission only when no rank works on its request any more; that
  /// makes room for another. The AdmissionController must outlive it.
  struct Leave {
    size_t room = 0;
    std::optional<uint64_t> sequence = std::nullopt;
    void operator()(AdmissionController *admissions) const { admissions->leave(room, sequence); }
  };
  using Admission = std::unique_ptr<AdmissionController, Leave>;
  /// Waits until there is room for a request, and none of the same sequence is under way. Null if there is
  /// none by the deadline: `timeout` after the call or after the last request ended, whichever is later.
  Admission enter(std::optional<uint64_t> sequence = std::nullopt);
  /// Waits until no request is under way, and lets none in. Null as for `enter`.
  Admission enterAlone();
  /// Records that a request has succeeded or failed: the timeouts of callers that wait start again. The
  /// request counts as under way until its Admission is destroyed, as ranks may still run it.
  void recordEnd();
  Clock::time_point lastEnd() const;

  const std::chrono::seconds timeout;

private:
  Admission enter(size_t room, std::optional<uint64_t> sequence);
  void leave(size_t room, std::optional<uint64_t> sequence);

  const size_t limit;
  mutable std::mutex mutex;
  std::condition_variable changed;
  size_t underWay = 0;
  /// Callers that wait to be alone; nobody else is let in meanwhile.
  size_t waitingAlone = 0;
  std::set<uint64_t> sequences;
  Clock::time_point ended{};
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SCHEDULE_ADMISSIONCONTROLLER_H
