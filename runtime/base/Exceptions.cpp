//===- Exceptions.cpp -----------------------------------------------------===//
#include "runtime/base/Exceptions.h"
#include "llvm/ADT/StringRef.h"
#include <c10/util/Exception.h>
#include <new>
#include <system_error>

namespace cleave::runtime {

std::string messageOf(const std::exception &exception) {
  if (dynamic_cast<const std::bad_alloc *>(&exception))
    return "out of memory; free some, or raise the limit (ulimit -v)";
  const auto *ofTorch = dynamic_cast<const c10::Error *>(&exception);
  // A thread: nothing else is refused so.
  if (const auto *system = dynamic_cast<const std::system_error *>(&exception))
    if (system->code() == std::errc::resource_unavailable_try_again)
      return "cannot start a thread; raise the limits on processes and memory (ulimit -u, ulimit -v)";
  return llvm::StringRef(ofTorch ? ofTorch->what_without_backtrace() : exception.what()).trim().str();
}

} // namespace cleave::runtime
