//===- RequestList.cpp ----------------------------------------------------===//
#include "runtime/schedule/RequestList.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave::runtime {

void RequestList::add(const std::shared_ptr<Request> &request) {
  std::lock_guard lock(mutex);
  llvm::erase_if(requests, [](const std::weak_ptr<Request> &each) { return each.expired(); });
  requests.push_back(request);
}

std::vector<std::shared_ptr<Request>> RequestList::all() {
  std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<Request>> running;
  for (const std::weak_ptr<Request> &each : requests)
    if (std::shared_ptr<Request> request = each.lock())
      running.push_back(std::move(request));
  return running;
}

void RequestList::cancel(const std::string &message) {
  for (const std::shared_ptr<Request> &request : all())
    request->cancellation.cancel(message);
}

void RequestList::checkDeadlines() {
  for (const std::shared_ptr<Request> &request : all())
    request->cancellation.checkDeadline();
}

} // namespace cleave::runtime
