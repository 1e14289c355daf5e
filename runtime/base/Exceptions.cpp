//===- Exceptions.cpp -----------------------------------------------------===//
#include "runtime/base/Exceptions.h"
#include "llvm/ADT/StringRef.h"
#include <c10/util/Exception.h>
#include <new>
#include <system_error>

namespace cleave::runtime {

/// True if a thread could not be started: the only call that fails with this error.
static bool isOfThread(const std::exception &exception) {
  const auto *system = dynamic_cast<const std::system_error *>(&exception);
  return system && system->code() == std::errc::resource_unavailable_try_again;
}

static bool isOfMemory(const std::exception &exception) {
  return dynamic_cast<const std::bad_alloc *>(&exception) != nullptr;
}

bool isOutOfResources(const std::exception &exception) {
  return isOfMemory(exception) || isOfThread(exception);
}

std::string messageOf(const std::exception &exception) {
  if (isOfMemory(exception))
    return "out of memory; free some, or raise the limit (ulimit -v)";
  const auto *ofTorch = dynamic_cast<const c10::Error *>(&exception);
  if (isOfThread(exception))
    return "cannot start a thread; raise the limits on processes and memory (ulimit -u, ulimit -v)";
  return llvm::StringRef(ofTorch ? ofTorch->what_without_backtrace() : exception.what()).trim().str();
}

} // namespace cleave::runtime
