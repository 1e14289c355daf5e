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

void RequestList::fail(const std::string &message) {
  for (const std::shared_ptr<Request> &request : all())
    request->fail(message);
}

void RequestList::checkDeadlines() {
  for (const std::shared_ptr<Request> &request : all())
    request->checkDeadline();
}

} // namespace cleave::runtime
