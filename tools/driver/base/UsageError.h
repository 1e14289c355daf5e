//===- UsageError.h - Options that nothing could make right -----*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_USAGEERROR_H
#define CLEAVE_TOOLS_DRIVER_BASE_USAGEERROR_H

#include "llvm/Support/Error.h"

namespace cleave {

/// An option's value that no model, plan or file could make right: malformed, or at odds with another option.
/// `cleave` ends with status 2, where work that failed ends it with 1.
class UsageError : public llvm::ErrorInfo<UsageError, llvm::StringError> {
public:
  static char ID;
  explicit UsageError(const llvm::Twine &message) : ErrorInfo(message, llvm::inconvertibleErrorCode()) {}
};

inline llvm::Error wrongUsage(const llvm::Twine &message) { return llvm::make_error<UsageError>(message); }

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_USAGEERROR_H
