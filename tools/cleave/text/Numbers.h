//===- Numbers.h - Numbers on the command line ------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TEXT_NUMBERS_H
#define CLEAVE_TOOLS_CLEAVE_TEXT_NUMBERS_H

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace cleave {

/// Accepts digits of a number from `least` to `most`, for `transform`.
CLI::Validator wholeNumber(uint64_t least, uint64_t most);

/// Replaces a size such as `80GB` by its number of bytes. Returns why the text is not a size of at least
/// `least` bytes; empty on success.
std::string readSize(std::string &text, int64_t least);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TEXT_NUMBERS_H
