//===- ErrorLines.h - Whole lines on the standard error ---------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_ERRORLINES_H
#define CLEAVE_CODEGEN_PLAN_ERRORLINES_H

#include "llvm/ADT/StringRef.h"
#include <atomic>

namespace cleave::plan {

/// Writes `line` and a newline to stderr, atomically among the threads of this process. Write errors are
/// ignored.
void printLine(llvm::StringRef line);

/// The same of each line of a text of others, with `whose` in front of each, as `model: `, and made
/// printable.
void printLines(llvm::StringRef whose, llvm::StringRef text);

/// The same as printLine, for what the process says as it ends: from then on these print nothing.
void printLastLine(llvm::StringRef line);

/// From now on what libraries write to std::cout and std::cerr, in whatever thread, comes as lines of
/// libtorch on the standard error: warnings of models in threads of their own do.
void takeStreams();

/// Registers `isWithin`, which is true while a line is being written. A parent that shares this memory can tell
/// whether a killed child left an incomplete line. `isWithin` must outlive the process's last line.
void noteLines(std::atomic<bool> &isWithin);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_ERRORLINES_H
