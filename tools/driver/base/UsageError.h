//===- UsageError.h - Errors in the use of options --------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_USAGEERROR_H
#define CLEAVE_TOOLS_DRIVER_BASE_USAGEERROR_H

#include "llvm/Support/Error.h"

namespace cleave {

/// The value of an option is malformed or contradicts another option, so that no model, plan or file could
/// make it right. `cleave` exits with status 2; other errors give status 1.
class UsageError : public llvm::ErrorInfo<UsageError, llvm::StringError> {
public:
  static char ID;
  explicit UsageError(const llvm::Twine &message) : ErrorInfo(message, llvm::inconvertibleErrorCode()) {}
};

inline llvm::Error wrongUsage(const llvm::Twine &message) { return llvm::make_error<UsageError>(message); }

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_USAGEERROR_H
