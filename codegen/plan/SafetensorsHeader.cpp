//===- SafetensorsHeader.cpp - JSON header of safetensors files -----------===//
#include "codegen/plan/SafetensorsHeader.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"

namespace cleave::plan {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
namespace json = llvm::json;

static constexpr StringRef kMetadataKey = "__metadata__";
/// {"name": {"shape": [1]}} has depth 3. The parser recurses, so the depth is limited before it runs.
static constexpr int kMaxNesting = 8;
/// Limit of an entry: 64 dimensions of 20 digits, and some space. Names are not limited.
static constexpr size_t kMaxEntryBytes = 1 << 16;
static constexpr uint64_t kDataAlignment = 64;

namespace {
struct DTypeWord {
  StringRef word;
  DType dtype;
};
} // namespace

static constexpr DTypeWord kWords[] = {
    {"BOOL", DType::Bool},         {"U8", DType::UInt8},         {"I8", DType::Int8},
    {"I16", DType::Int16},         {"I32", DType::Int32},        {"I64", DType::Int64},
    {"F16", DType::Half},          {"BF16", DType::BFloat16},    {"F32", DType::Float},
    {"F64", DType::Double},        {"C64", DType::ComplexFloat}, {"F8_E4M3", DType::Float8E4M3},
    {"F8_E5M2", DType::Float8E5M2}};

std::optional<uint64_t> bytesOf(DType dtype, llvm::ArrayRef<int64_t> shape) {
  std::optional<int64_t> bytes = bytesOf(dtype);
  // A size of 0 makes the tensor empty, but must not hide an overflow before it.
  for (int64_t size : shape) {
    if (size < 0)
      return std::nullopt;
    bytes = llvm::checkedMul(*bytes, size);
    if (!bytes)
      return std::nullopt;
  }
  if (bytesOf(dtype) == 0)
    return std::nullopt;
  return *bytes;
}

//===- Reading ------------------------------------------------------------===//

namespace {
/// Splits the header into its entries, which are parsed one by one, since LLVM's tree of all would take 4 KiB
/// per tensor.
class HeaderCutter {
public:
  /// \param text  begins with a brace.
  explicit HeaderCutter(StringRef text) : rest(text.drop_front().ltrim()), isEnd(rest.consume_front("}")) {}
  /// The next name, with its quotes, and its value; nothing at the end of the object.
  Expected<std::optional<std::pair<StringRef, StringRef>>> next();

private:
  /// The text before the first of `stops` outside of strings, arrays and objects.
  Expected<StringRef> takeUntil(StringRef stops);

  StringRef rest;
  bool isEnd;
};
} // namespace

Expected<StringRef> HeaderCutter::takeUntil(StringRef stops) {
  int depth = 1;
  bool inString = false;
  for (size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    if (!inString && depth == 1 && stops.contains(c)) {
      StringRef taken = rest.take_front(i);
      rest = rest.drop_front(i);
      return taken;
    }
    if (inString && c == '\\')
      ++i;
    else if (c == '"')
      inString = !inString;
    else if (!inString && (c == '{' || c == '['))
      ++depth;
    else if (!inString && (c == '}' || c == ']'))
      --depth;
    if (depth > kMaxNesting)
      return llvm::createStringError("its header is nested deeper than " + llvm::Twine(kMaxNesting));
    if (depth == 0)
      break;
  }
  return llvm::createStringError("its header is no JSON: an object has no end");
}

Expected<std::optional<std::pair<StringRef, StringRef>>> HeaderCutter::next() {
  if (isEnd) {
    if (!rest.trim().empty())
      return llvm::createStringError("its header is no JSON: text after end of document");
    return std::nullopt;
  }
  Expected<StringRef> name = takeUntil(":");
  if (!name)
    return name.takeError();
  rest = rest.drop_front();
  Expected<StringRef> value = takeUntil(",}");
  if (!value)
    return value.takeError();
  isEnd = rest.front() == '}';
  rest = rest.drop_front();
  return std::pair(*name, *value);
}

static Error invalid(StringRef tensor, const llvm::Twine &what) {
  return llvm::createStringError("tensor '" + tensor + "': " + what);
}

/// A list of `count` integers >= 0; of any length if `count` is negative.
static std::optional<std::vector<int64_t>> readSizes(const json::Object &object, StringRef key, int count) {
  const json::Array *array = object.getArray(key);
  if (!array || (count >= 0 && array->size() != static_cast<size_t>(count)))
    return std::nullopt;
  std::vector<int64_t> sizes;
  for (const json::Value &value : *array) {
    std::optional<int64_t> size = value.getAsInteger();
    if (!size || *size < 0)
      return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

static Expected<TensorEntry> parseEntry(StringRef name, const json::Value &value) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return invalid(name, "expected an object with dtype, shape and data_offsets");
  StringRef word = object->getString("dtype").value_or("");
  auto *known = llvm::find_if(kWords, [&](const DTypeWord &candidate) { return candidate.word == word; });
  if (known == std::end(kWords))
    return invalid(name, "dtype '" + word + "' is not supported");
  auto shape = readSizes(*object, "shape", -1);
  auto range = readSizes(*object, "data_offsets", 2);
  if (!shape || !range || (*range)[0] > (*range)[1])
    return invalid(name, "shape or data_offsets are missing or no sizes");
  uint64_t stored = (*range)[1] - (*range)[0];
  std::optional<uint64_t> bytes = bytesOf(known->dtype, *shape);
  if (bytes != stored)
    return invalid(name, "its shape and dtype do not make the " + llvm::Twine(stored) + " bytes that it has");
  return TensorEntry{name.str(), known->dtype, std::move(*shape), static_cast<uint64_t>((*range)[0]), stored};
}

/// Sorts by offset and checks that each tensor begins at the end of the one before.
static Error checkCoverage(std::vector<TensorEntry> &entries, uint64_t dataBytes) {
  llvm::sort(entries, [](const TensorEntry &a, const TensorEntry &b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  uint64_t end = 0;
  for (const TensorEntry &entry : entries) {
    if (entry.offset != end)
      return invalid(entry.name, "its data begins at " + llvm::Twine(entry.offset) +
                                     ", the data before it ends at " + llvm::Twine(end));
    end = entry.offset + entry.bytes;
  }
  if (end != dataBytes)
    return llvm::createStringError("its tensors take " + llvm::Twine(end) + " bytes, it has " +
                                   llvm::Twine(dataBytes));
  return Error::success();
}

/// The entry of a name, both as spelled in the file; nothing for metadata, which is ignored.
static Expected<std::optional<TensorEntry>> parseEntry(StringRef spelled, StringRef text) {
  auto noJson = [](Error why) {
    return llvm::createStringError("its header is no JSON: " + toString(std::move(why)));
  };
  Expected<json::Value> key = json::parse(spelled);
  if (!key)
    return noJson(key.takeError());
  const std::optional<StringRef> name = key->getAsString();
  if (!name)
    return llvm::createStringError("its header is no JSON: a key is no string");
  if (*name == kMetadataKey)
    return std::nullopt;
  if (text.size() > kMaxEntryBytes)
    return invalid(*name, "its entry takes more than " + llvm::Twine(kMaxEntryBytes) + " bytes");
  Expected<json::Value> value = json::parse(text);
  return value ? parseEntry(*name, *value) : noJson(value.takeError());
}

Expected<std::vector<TensorEntry>> parseHeader(StringRef text, uint64_t dataBytes) {
  if (!text.starts_with("{"))
    return llvm::createStringError("its header is no JSON object");
  std::vector<TensorEntry> entries;
  llvm::StringSet<> names;
  for (HeaderCutter cutter(text);;) {
    auto part = cutter.next();
    if (!part)
      return part.takeError();
    if (!*part)
      break;
    Expected<std::optional<TensorEntry>> entry = parseEntry((*part)->first, (*part)->second);
    if (!entry)
      return entry.takeError();
    if (*entry && !names.insert((*entry)->name).second)
      return invalid((*entry)->name, "there are two of that name");
    if (*entry)
      entries.push_back(std::move(**entry));
  }
  if (Error error = checkCoverage(entries, dataBytes))
    return error;
  for (TensorEntry &entry : entries)
    entry.offset += kHeaderLengthBytes + text.size();
  return entries;
}

//===- Writing ------------------------------------------------------------===//

/// Empty if the format lacks the dtype.
static StringRef wordOf(DType dtype) {
  auto *known = llvm::find_if(kWords, [&](const DTypeWord &word) { return word.dtype == dtype; });
  return known == std::end(kWords) ? StringRef() : known->word;
}

static Error checkWritable(llvm::ArrayRef<TensorEntry> entries) {
  llvm::StringSet<> names;
  for (const TensorEntry &entry : entries) {
    if (entry.name == kMetadataKey || !json::isUTF8(entry.name))
      return invalid(entry.name, "safetensors cannot hold a tensor of that name");
    if (!names.insert(entry.name).second)
      return invalid(entry.name, "there are two of that name");
    if (wordOf(entry.dtype).empty())
      return invalid(entry.name, "safetensors cannot hold " + nameOf(entry.dtype));
  }
  return Error::success();
}

static void writeEntry(json::OStream &writer, const TensorEntry &entry) {
  writer.attributeObject(entry.name, [&] {
    writer.attribute("dtype", wordOf(entry.dtype));
    writer.attribute("shape", json::Array(entry.shape));
    writer.attribute("data_offsets", json::Array{entry.offset, entry.offset + entry.bytes});
  });
}

Expected<std::string> formatHeader(llvm::MutableArrayRef<TensorEntry> entries) {
  if (Error error = checkWritable(entries))
    return error;
  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream writer(stream);
  uint64_t end = 0;
  writer.object([&] {
    for (TensorEntry &entry : entries) {
      entry.offset = end;
      end += entry.bytes;
      writeEntry(writer, entry);
    }
  });
  stream.flush();
  uint64_t dataStart = llvm::alignTo(kHeaderLengthBytes + text.size(), kDataAlignment);
  text.resize(dataStart - kHeaderLengthBytes, ' ');
  std::string header(kHeaderLengthBytes, '\0');
  llvm::support::endian::write64le(header.data(), text.size());
  for (TensorEntry &entry : entries)
    entry.offset += dataStart;
  return header + text;
}

} // namespace cleave::plan
