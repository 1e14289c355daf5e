//===- Exceptions.h - What libtorch throws, as llvm::Error ------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_EXCEPTIONS_H
#define CLEAVE_RUNTIME_BASE_EXCEPTIONS_H

#include "llvm/Support/Error.h"
#include <exception>
#include <string>

namespace cleave::runtime {

/// True if the exception means that this process has run out of memory or threads, so no peer is at fault.
bool isShortage(const std::exception &exception);

/// The message of an exception, without libtorch's backtrace and surrounding space.
std::string messageOf(const std::exception &exception);

/// What `work` returns (an llvm::Error or llvm::Expected); an exception that leaves it becomes an error too.
template <typename Work> auto catching(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception &exception) {
    return llvm::createStringError(messageOf(exception));
  }
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_EXCEPTIONS_H
