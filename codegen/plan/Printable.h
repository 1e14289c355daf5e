//===- Printable.h - Text of others on a terminal ---------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_PRINTABLE_H
#define CLEAVE_CODEGEN_PLAN_PRINTABLE_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace cleave::plan {

/// Whether a terminal shows `text` as it is: UTF-8 without control characters, line separators, and what
/// Unicode calls format characters, which are not seen or change how others are.
bool isPrintable(llvm::StringRef text);

/// `text` with `\xNN` for each byte of what is not printable.
std::string printable(llvm::StringRef text);

/// The same, at most `most` bytes of `text`, and `…` for the rest.
std::string printable(llvm::StringRef text, size_t most);

/// The same of each of its lines.
std::string printableLines(llvm::StringRef text);

/// The text of a JSON value, with `\uNNNN`, or two of these, for each character of its strings that is not
/// printable: the same value. Its lines stay.
std::string printableJson(llvm::StringRef json);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_PRINTABLE_H
