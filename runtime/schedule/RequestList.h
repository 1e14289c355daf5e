//===- RequestList.h - The requests of a session under way ------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SCHEDULE_REQUESTLIST_H
#define CLEAVE_RUNTIME_SCHEDULE_REQUESTLIST_H

#include "runtime/schedule/Request.h"
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Requests that a rank still works on or a caller waits for; owns none of them. Thread-safe.
class RequestList {
public:
  void add(const std::shared_ptr<Request> &request);
  void cancel(const std::string &message);
  /// Cancels requests whose deadline has passed.
  void checkDeadlines();

private:
  std::vector<std::shared_ptr<Request>> all();

  std::mutex mutex;
  std::vector<std::weak_ptr<Request>> requests;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SCHEDULE_REQUESTLIST_H
