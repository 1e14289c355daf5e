//===- Printable.h - Untrusted text on a terminal ---------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_TEXT_PRINTABLE_H
#define CLEAVE_CODEGEN_PLAN_TEXT_PRINTABLE_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace cleave::plan {

/// True if a terminal shows `text` as it is: UTF-8 without control characters, line separators and Unicode
/// format characters, which are invisible or change how other characters appear.
bool isPrintable(llvm::StringRef text);

/// Replaces each byte of unprintable characters by `\xNN`.
std::string printable(llvm::StringRef text);

/// printable of at most `most` bytes of `text`, with `…` for the rest.
std::string printable(llvm::StringRef text, size_t most);

/// printable of each line.
std::string printableLines(llvm::StringRef text);

/// JSON text with `\uNNNN`, or two of these, for each unprintable character of its strings. Its value and its
/// lines stay the same.
std::string printableJson(llvm::StringRef json);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_TEXT_PRINTABLE_H
