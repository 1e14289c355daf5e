//===- Exceptions.h - libtorch exceptions as llvm::Error --------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_EXCEPTIONS_H
#define CLEAVE_RUNTIME_BASE_EXCEPTIONS_H

#include "llvm/Support/Error.h"
#include <exception>
#include <string>

namespace cleave::runtime {

/// True if this process has run out of memory or threads, so that no other process is to blame.
bool isOutOfResources(const std::exception &exception);

/// The message of an exception, without libtorch's backtrace and without surrounding space.
std::string messageOf(const std::exception &exception);

/// Returns what `work` returns (an llvm::Error or llvm::Expected). Turns an exception that `work` throws into
/// an error.
template <typename Work> auto catching(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception &exception) {
    return llvm::createStringError(messageOf(exception));
  }
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_EXCEPTIONS_H
