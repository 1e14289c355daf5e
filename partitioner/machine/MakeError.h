//===- MakeError.h - Formatted errors ---------------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_MAKEERROR_H
#define CLEAVE_PARTITIONER_MACHINE_MAKEERROR_H

#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"
#include <utility>

namespace cleave {

/// An error whose message is `llvm::formatv(format, parts...)`.
template <typename... Parts> llvm::Error makeError(const char *format, Parts &&...parts) {
  return llvm::createStringError(llvm::formatv(format, std::forward<Parts>(parts)...).str());
}

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_MAKEERROR_H
