//===- UsageError.h - Errors in the use of options --------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_USAGEERROR_H
#define CLEAVE_TOOLS_DRIVER_BASE_USAGEERROR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace cleave {

/// The value of an option is malformed or contradicts another option, so that no model, plan or file could
/// make it right. `cleave` exits with status 2; other errors give status 1.
class UsageError : public llvm::ErrorInfo<UsageError, llvm::StringError> {
public:
  static char ID;
  explicit UsageError(const llvm::Twine &message) : ErrorInfo(message, llvm::inconvertibleErrorCode()) {}
};

inline llvm::Error wrongUsage(const llvm::Twine &message) { return llvm::make_error<UsageError>(message); }

/// Fails with a UsageError if a pattern of `option` (`--trainable`) is empty or has other characters than
/// those of names, `*` and `?`: patterns become part of the text of a pass pipeline.
llvm::Error checkPatterns(llvm::StringRef option, llvm::ArrayRef<std::string> patterns);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_USAGEERROR_H
