//===- TorchScriptError.h - What a TorchScript program raised ---*- C++ -*-===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_TORCHSCRIPTERROR_H
#define CLEAVE_FRONTEND_ARCHIVE_TORCHSCRIPTERROR_H

#include "llvm/ADT/StringRef.h"

namespace cleave {

/// TorchScript's messages are a backtrace of the model's source, then what happened, then perhaps a backtrace
/// of libtorch: the line that says what happened.
inline llvm::StringRef whatHappened(llvm::StringRef message) {
  message = message.split("\nException raised from").first.rtrim();
  size_t last = message.rfind('\n');
  return message.substr(last == llvm::StringRef::npos ? 0 : last + 1).trim();
}

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_TORCHSCRIPTERROR_H
