//===- Printable.cpp - Text of others on a terminal -----------------------===//
#include "codegen/plan/Printable.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

namespace cleave::plan {

using llvm::StringRef;

static bool isShown(llvm::UTF32 point) {
  const bool isControl = point < 0x20 || (point >= 0x7f && point < 0xa0);
  const bool separates = point == 0x2028 || point == 0x2029;
  const bool directs = point == 0x200e || point == 0x200f || (point >= 0x202a && point <= 0x202e) ||
                       (point >= 0x2066 && point <= 0x2069);
  return !isControl && !separates && !directs;
}

/// Takes the first character of `rest`, or the first byte of what is none.
static StringRef takeCharacter(StringRef &rest, bool &shown) {
  auto *begin = reinterpret_cast<const llvm::UTF8 *>(rest.begin()), *next = begin;
  llvm::UTF32 point = 0;
  shown = llvm::convertUTF8Sequence(&next, reinterpret_cast<const llvm::UTF8 *>(rest.end()), &point,
                                    llvm::strictConversion) == llvm::conversionOK &&
          isShown(point);
  StringRef taken = rest.take_front(std::max<size_t>(next - begin, 1));
  rest = rest.drop_front(taken.size());
  return taken;
}

bool isPrintable(StringRef text) {
  bool shown = true;
  while (shown && !text.empty())
    takeCharacter(text, shown);
  return shown;
}

std::string printable(StringRef text) {
  std::string result;
  while (!text.empty()) {
    bool shown;
    StringRef character = takeCharacter(text, shown);
    if (shown)
      result += character;
    else
      for (unsigned char byte : character)
        (result += "\\x")
            .append({llvm::hexdigit(byte >> 4, /*LowerCase=*/true), llvm::hexdigit(byte & 15, true)});
  }
  return result;
}

std::string printable(StringRef text, size_t most) {
  if (text.size() <= most)
    return printable(text);
  // Not within a character.
  while (most > 0 && (text[most] & 0xc0) == 0x80)
    --most;
  return printable(text.take_front(most)) + "…";
}

std::string printableLines(StringRef text) {
  return llvm::join(llvm::map_range(llvm::split(text, '\n'), [](StringRef line) { return printable(line); }),
                    "\n");
}

} // namespace cleave::plan
