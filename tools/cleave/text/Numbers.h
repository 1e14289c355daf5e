//===- Numbers.h - Numbers on the command line ------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TEXT_NUMBERS_H
#define CLEAVE_TOOLS_CLEAVE_TEXT_NUMBERS_H

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace cleave {

/// Accepts digits that are a number from `least` to `most`, for `transform`.
CLI::Validator wholeNumber(uint64_t least, uint64_t most);

/// Why the text is no size of at least so many bytes; otherwise empty, and its bytes are in place of it.
std::string readSize(std::string &text, int64_t least);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TEXT_NUMBERS_H
