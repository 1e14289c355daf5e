//===- TorchScriptError.h - Errors raised by TorchScript programs -*- C++ -*-===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_TORCHSCRIPTERROR_H
#define CLEAVE_FRONTEND_ARCHIVE_TORCHSCRIPTERROR_H

#include "llvm/ADT/StringRef.h"

namespace cleave {

/// The line of a TorchScript message that says what happened. Before it is a backtrace of the model's source,
/// after it perhaps a backtrace of libtorch.
inline llvm::StringRef errorLine(llvm::StringRef message) {
  message = message.split("\nException raised from").first.rtrim();
  size_t last = message.rfind('\n');
  return message.substr(last == llvm::StringRef::npos ? 0 : last + 1).trim();
}

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_TORCHSCRIPTERROR_H
