//===- LastWord.h - What a process says when it ends ------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_PROCESS_LASTWORD_H
#define CLEAVE_TOOLS_CLEAVE_PROCESS_LASTWORD_H

#include "llvm/ADT/StringRef.h"

namespace cleave {

/// Writes to the standard error what somebody reads of `text` within a second: a process that ends does not
/// wait for a reader of a full pipe. Takes no memory and no lock, so that signal handlers may call it.
void sayLast(llvm::StringRef text);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_PROCESS_LASTWORD_H
