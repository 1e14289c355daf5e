//===- JsonFile.cpp - Untrusted JSON files --------------------------------===//
#include "partitioner/machine/JsonFile.h"

#include "codegen/plan/files/InputFile.h"
#include "codegen/plan/text/JsonText.h"
#include "ir/NearestName.h"
#include "partitioner/machine/MakeError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

namespace json = llvm::json;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace cleave {

/// Levels of arrays and objects: those of our formats, with some to spare for messages about unknown keys.
static constexpr unsigned kDeepest = 8;

std::string describeJson(const json::Value *value) {
  if (!value)
    return "nothing";
  if (value->getAsObject())
    return "an object";
  if (value->getAsArray())
    return "an array";
  const std::string text = plan::jsonText(*value, /*indent=*/0);
  return text.size() <= 80 ? text : "a long string";
}

Error checkKeys(const json::Object &object, StringRef where, llvm::ArrayRef<StringRef> required,
                llvm::ArrayRef<StringRef> optional) {
  for (StringRef key : required)
    if (!object.get(key))
      return makeError("{0}: the key \"{1}\" is missing; keys that must be there: {2}", where, key,
                       llvm::join(required, ", "));
  const json::Object::value_type *unknown = nullptr;
  for (const json::Object::value_type &entry : object) {
    StringRef key = entry.first;
    // The object is hashed; taking the smallest name makes the message deterministic.
    if (!llvm::is_contained(required, key) && !llvm::is_contained(optional, key) &&
        (!unknown || key < StringRef(unknown->first)))
      unknown = &entry;
  }
  if (!unknown)
    return Error::success();
  const json::Value key(StringRef(unknown->first));
  std::vector<std::string> known(required.begin(), required.end());
  known.insert(known.end(), optional.begin(), optional.end());
  return makeError("{0}: the key {1} is unknown; use {2}{3}", where, describeJson(&key),
                   llvm::join(known, ", "), didYouMean(StringRef(unknown->first), known));
}

/// End of the string that begins after the quote before `at`; the text's end if it is not closed.
static size_t endOfString(StringRef text, size_t at) {
  for (; at < text.size() && text[at] != '"'; ++at)
    at += text[at] == '\\';
  return std::min(at, text.size());
}

/// The string that is spelled so: `\u0061` is `a`. An invalid spelling, for which the parser has an error, is
/// returned as it is.
static std::string unescaped(StringRef spelled) {
  if (!spelled.contains('\\'))
    return spelled.str();
  Expected<json::Value> value = json::parse(("\"" + spelled + "\"").str());
  if (!value) {
    llvm::consumeError(value.takeError());
    return spelled.str();
  }
  return value->getAsString().value_or(spelled).str();
}

/// True if the string that ends at the quote `end` is a key.
static bool isKey(StringRef text, size_t end) { return text.substr(end + 1).ltrim().starts_with(":"); }

/// Fails on text that would overflow the stack of LLVM's recursive parser or take much memory, and on
/// repeated keys, of which the parser takes the last.
static Error checkShape(StringRef text, StringRef source, const JsonFileKind &kind) {
  uint64_t objects = 0;
  // By open level: its keys.
  std::vector<llvm::StringSet<>> keys;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      const size_t begin = at + 1;
      at = endOfString(text, begin);
      if (!keys.empty() && isKey(text, at) && !keys.back().insert(unescaped(text.slice(begin, at))).second)
        return makeError("{0}: byte {1}: the key \"{2}\" is given twice; leave one away", source, begin - 1,
                         llvm::all_of(text.slice(begin, at), llvm::isPrint)
                             ? text.slice(begin, at).take_front(80)
                             : StringRef());
    } else if (c == '[' || c == '{') {
      if (keys.size() == kDeepest)
        return makeError("{0}: byte {1}: more than {2} levels of arrays and objects, a {3} has fewer", source,
                         at, kDeepest, kind.name);
      keys.emplace_back();
    } else if ((c == ']' || c == '}') && !keys.empty()) {
      keys.pop_back();
    }
    if (c == '{' && ++objects > kind.mostObjects)
      return makeError("{0}: byte {1}: more than {2} objects, a {3} has fewer", source, at, kind.mostObjects,
                       kind.name);
  }
  return Error::success();
}

std::vector<std::string> keysInOrder(StringRef text) {
  std::vector<std::string> keys;
  unsigned depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') {
      const size_t begin = at + 1;
      at = endOfString(text, begin);
      if (depth == 1 && isKey(text, at))
        keys.push_back(unescaped(text.slice(begin, at)));
    } else if (text[at] == '[' || text[at] == '{') {
      ++depth;
    } else if (text[at] == ']' || text[at] == '}') {
      --depth;
    }
  }
  return keys;
}

/// Error for a file that the system does not let us read.
static Error unreadable(StringRef path, const JsonFileKind &kind, std::error_code error) {
  return makeError("{0}: {1}; give a {2} that can be read", path, plan::describeInputError(error), kind.name);
}

/// The file's text. Only regular files are read, since others may never end.
static Expected<std::unique_ptr<llvm::MemoryBuffer>> readText(StringRef path, const JsonFileKind &kind) {
  auto expected = [&](StringRef found) {
    return makeError("{0}: found {1}, expected a regular file of at most {2} bytes; give a {3}", path, found,
                     kind.mostBytes, kind.name);
  };
  auto file = plan::InputFile::open(path);
  if (!file && file.getError() == std::errc::invalid_argument)
    return expected(llvm::sys::fs::is_directory(path) ? "a folder" : "no regular file");
  if (!file)
    return unreadable(path, kind, file.getError());
  if (file->bytes() > kind.mostBytes)
    return expected(std::to_string(file->bytes()) + " bytes");
  // Read rather than mapped, since another process may truncate the file.
  auto buffer = file->read();
  if (!buffer)
    return unreadable(path, kind, buffer.getError());
  return std::move(*buffer);
}

Expected<json::Value> readJsonText(StringRef text, StringRef source, const JsonFileKind &kind) {
  if (Error error = checkShape(text, source, kind))
    return error;
  Expected<json::Value> value = json::parse(text);
  if (!value)
    return makeError("{0}: {1}; expected a JSON object", source, llvm::toString(value.takeError()));
  return value;
}

Expected<json::Value> readJsonFile(StringRef path, const JsonFileKind &kind) {
  Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readText(path, kind);
  if (!buffer)
    return buffer.takeError();
  return readJsonText((*buffer)->getBuffer(), path, kind);
}

} // namespace cleave
