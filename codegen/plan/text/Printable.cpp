//===- Printable.cpp - Untrusted text on a terminal -----------------------===//
#include "codegen/plan/text/Printable.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Unicode.h"

namespace cleave::plan {

using llvm::StringRef;

/// Marks invalid characters.
static constexpr llvm::UTF32 kReplacement = 0xfffd;

static bool isShown(llvm::UTF32 point) {
  const bool isControl = point < 0x20 || (point >= 0x7f && point < 0xa0);
  const bool separates = point == 0x2028 || point == 0x2029;
  // Of these, some are tag characters and others are unassigned.
  const bool isIgnored = point >= 0xe0000 && point < 0xe1000;
  return !isControl && !separates && !isIgnored && !llvm::sys::unicode::isFormatting(point);
}

namespace {
/// The first character of a text, or its first byte if that begins no character.
struct Character {
  StringRef bytes;
  llvm::UTF32 point;
  bool isShown;
};
} // namespace

static Character takeCharacter(StringRef &rest) {
  auto *begin = reinterpret_cast<const llvm::UTF8 *>(rest.begin()), *next = begin;
  llvm::UTF32 point = 0;
  const bool isText = llvm::convertUTF8Sequence(&next, reinterpret_cast<const llvm::UTF8 *>(rest.end()),
                                                &point, llvm::strictConversion) == llvm::conversionOK;
  StringRef taken = rest.take_front(std::max<size_t>(next - begin, 1));
  rest = rest.drop_front(taken.size());
  return isText ? Character{taken, point, isShown(point)} : Character{taken, kReplacement, /*isShown=*/false};
}

bool isPrintable(StringRef text) {
  while (!text.empty())
    if (!takeCharacter(text).isShown)
      return false;
  return true;
}

static void appendHex(std::string &text, uint8_t byte) {
  text.append({llvm::hexdigit(byte >> 4, /*LowerCase=*/true), llvm::hexdigit(byte & 15, true)});
}

/// A UTF-16 code unit, as JSON escapes it.
static void appendUnit(std::string &text, uint16_t unit) {
  appendHex(text += "\\u", unit >> 8);
  appendHex(text, unit & 0xff);
}

std::string printable(StringRef text) {
  std::string result;
  while (!text.empty()) {
    const Character character = takeCharacter(text);
    if (character.isShown)
      result += character.bytes;
    else
      for (uint8_t byte : character.bytes)
        appendHex(result += "\\x", byte);
  }
  return result;
}

std::string printableJson(StringRef json) {
  std::string result;
  while (!json.empty()) {
    const Character character = takeCharacter(json);
    if (character.isShown || character.bytes == "\n") {
      result += character.bytes;
      continue;
    }
    if (character.point < 0x10000) {
      appendUnit(result, character.point);
      continue;
    }
    appendUnit(result, 0xd7c0 + (character.point >> 10));
    appendUnit(result, 0xdc00 + (character.point & 0x3ff));
  }
  return result;
}

std::string printable(StringRef text, size_t most) {
  if (text.size() <= most)
    return printable(text);
  // Do not cut within a character.
  while (most > 0 && (text[most] & 0xc0) == 0x80)
    --most;
  return printable(text.take_front(most)) + "…";
}

std::string printableLines(StringRef text) {
  return llvm::join(llvm::map_range(llvm::split(text, '\n'), [](StringRef line) { return printable(line); }),
                    "\n");
}

} // namespace cleave::plan
