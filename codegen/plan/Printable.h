//===- Printable.h - Text of others on a terminal ---------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_PRINTABLE_H
#define CLEAVE_CODEGEN_PLAN_PRINTABLE_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace cleave::plan {

/// Whether a terminal shows `text` as it is: UTF-8 without control characters, line separators, and marks
/// that change the direction of text.
bool isPrintable(llvm::StringRef text);

/// `text` with `\xNN` for each byte of what is not printable.
std::string printable(llvm::StringRef text);

/// The same, at most `most` bytes of `text`, and `…` for the rest.
std::string printable(llvm::StringRef text, size_t most);

/// The same of each of its lines.
std::string printableLines(llvm::StringRef text);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_PRINTABLE_H
