//===- ErrorLines.h - Whole lines on the standard error ---------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_TEXT_ERRORLINES_H
#define CLEAVE_CODEGEN_PLAN_TEXT_ERRORLINES_H

#include "llvm/ADT/StringRef.h"
#include <atomic>

namespace cleave::plan {

/// Writes `line` and a newline to stderr. Lines of several threads do not mix. Write errors are ignored.
void printLine(llvm::StringRef line);

/// Writes each line of another program's text, made printable, with the prefix `prefix`, such as `model: `.
void printLines(llvm::StringRef prefix, llvm::StringRef text);

/// Writes a line as the process ends; all later calls of these functions print nothing.
void printLastLine(llvm::StringRef line);

/// From now on, redirects std::cout and std::cerr of all threads to stderr, as lines that begin with
/// `libtorch: `; models may print warnings from threads of their own. What Gloo prints of each failed try to
/// connect is left out, since an error follows if no try succeeds.
void redirectStdStreams();

/// From now on, sets `isWithin` while a line is being written, so that a parent that shares it sees whether a
/// killed child left half a line. `isWithin` must live as long as the process.
void shareLineState(std::atomic<bool> &isWithin);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_TEXT_ERRORLINES_H
