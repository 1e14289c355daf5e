//===- ClosedReason.h - Whether a session accepts requests ------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SESSION_CLOSEDREASON_H
#define CLEAVE_RUNTIME_SESSION_CLOSEDREASON_H

#include "llvm/Support/Error.h"
#include <mutex>
#include <string>

namespace cleave::runtime {

/// The reason why a session accepts no more requests, `one had no result in time (…)`; empty as long as it
/// accepts them. Thread-safe.
class ClosedReason {
public:
  void set(const std::string &why) {
    std::lock_guard lock(mutex);
    if (reason.empty())
      reason = why;
  }
  llvm::Error check() {
    std::lock_guard lock(mutex);
    if (reason.empty())
      return llvm::Error::success();
    return llvm::createStringError("the session takes no more requests, since " + reason + "; open another");
  }

private:
  std::mutex mutex;
  std::string reason;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_CLOSEDREASON_H
