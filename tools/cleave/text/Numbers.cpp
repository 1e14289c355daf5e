//===- Numbers.cpp - Numbers on the command line --------------------------===//
#include "tools/cleave/text/Numbers.h"
#include "llvm/ADT/StringRef.h"

namespace cleave {

CLI::Validator wholeNumber(uint64_t least, uint64_t most) {
  return CLI::Validator(
      [least, most](std::string &text) {
        uint64_t number;
        if (llvm::StringRef(text).getAsInteger(10, number) || number < least || number > most)
          return "found \"" + text + "\", expected a whole number from " + std::to_string(least) + " to " +
                 std::to_string(most);
        // CLI11 would read 010 as 8.
        text = std::to_string(number);
        return std::string();
      },
      "");
}

/// Replaces `80GB` by its bytes.
static bool takeUnit(std::string &text) {
  try {
    return CLI::AsSizeValue(/*kb_is_1000=*/true)(text).empty();
  } catch (const CLI::ValidationError &) {
    return false;
  }
}

std::string readSize(std::string &text, int64_t least) {
  const std::string found = text;
  int64_t bytes;
  const bool isUnsigned = !llvm::StringRef(text).ltrim().starts_with("-");
  if (isUnsigned && takeUnit(text) && !llvm::StringRef(text).getAsInteger(10, bytes) && bytes >= least)
    return "";
  return "found \"" + found + "\", expected bytes of at least " + std::to_string(least) +
         ", a whole number and its unit, as 80GB or 1500MB";
}

} // namespace cleave
