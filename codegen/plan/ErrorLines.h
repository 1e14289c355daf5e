//===- ErrorLines.h - Whole lines on the standard error ---------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_ERRORLINES_H
#define CLEAVE_CODEGEN_PLAN_ERRORLINES_H

#include "llvm/ADT/StringRef.h"
#include <atomic>

namespace cleave::plan {

/// Writes `line` and an end of line to the standard error. Lines of several threads do not mix. Errors of
/// writing are ignored.
void printLine(llvm::StringRef line);

/// The same of each line of a text of others, with `whose` in front of each, as `model: `, and made
/// printable.
void printLines(llvm::StringRef whose, llvm::StringRef text);

/// The same as printLine, for what the process says as it ends: from then on these print nothing.
void printLastLine(llvm::StringRef line);

/// From now on what libraries write to std::cout and std::cerr, in whatever thread, comes as lines of
/// libtorch on the standard error: warnings of models in threads of their own do.
void takeStreams();

/// From now on sets `isWithin` while a line is being written: a parent that shares it sees whether a killed
/// child has left half a line. `isWithin` has to live as long as the process.
void noteLines(std::atomic<bool> &isWithin);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_ERRORLINES_H
