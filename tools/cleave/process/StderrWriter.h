//===- StderrWriter.h - Last output of a process ----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_PROCESS_STDERRWRITER_H
#define CLEAVE_TOOLS_CLEAVE_PROCESS_STDERRWRITER_H

#include "llvm/ADT/StringRef.h"

namespace cleave {

/// Writes to stderr as much of `text` as is read within a second: a process that ends does not wait for the
/// reader of a full pipe. Uses neither memory nor locks. Async-signal-safe.
void writeStderr(llvm::StringRef text);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_PROCESS_STDERRWRITER_H
