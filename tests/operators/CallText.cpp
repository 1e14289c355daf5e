//===- CallText.cpp - Calls of operators as text --------------------------===//
#include "tests/operators/CallText.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include <cstdio>

namespace cleave::operators {

using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

static constexpr std::pair<const char *, c10::ScalarType> kDTypes[] = {
    {"f32", c10::kFloat}, {"f64", c10::kDouble}, {"f16", c10::kHalf},         {"bf16", c10::kBFloat16},
    {"i64", c10::kLong},  {"i32", c10::kInt},    {"i16", c10::kShort},        {"i8", c10::kChar},
    {"u8", c10::kByte},   {"bool", c10::kBool},  {"c64", c10::kComplexFloat}, {"c128", c10::kComplexDouble},
};

StringRef nameOf(c10::ScalarType dtype) {
  for (auto [name, known] : kDTypes)
    if (known == dtype)
      return name;
  return "?";
}

//===- Reading ------------------------------------------------------------===//

namespace {
/// Reads the words of a line from left to right.
class Reader {
public:
  explicit Reader(StringRef line) { line.split(words, ' ', -1, /*KeepEmpty=*/false); }
  Expected<Call> readCall();

private:
  llvm::Error fail(const Twine &what) const {
    return llvm::createStringError("word " + Twine(next) + ": " + what);
  }
  bool ends(StringRef closing) const { return next < words.size() && words[next].starts_with(closing); }
  Expected<CallValue> readValue();
  Expected<CallValue> readItems(CallValue value, StringRef closing);
  Expected<CallValue> readTensor(StringRef text);

  llvm::SmallVector<StringRef> words;
  size_t next = 0;
};
} // namespace

static bool readIntegers(StringRef text, std::vector<int64_t> &numbers) {
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    int64_t number;
    if (part.getAsInteger(10, number))
      return false;
    numbers.push_back(number);
  }
  return true;
}

/// strtod takes `inf` and `nan` too.
static bool readReals(StringRef text, std::vector<double> &numbers) {
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    std::string word = part.str();
    char *end = nullptr;
    numbers.push_back(std::strtod(word.c_str(), &end));
    if (*end)
      return false;
  }
  return true;
}

static std::string unescape(StringRef text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code;
    if (text[i] == '%' && !text.substr(i + 1, 2).getAsInteger(16, code)) {
      result += char(code);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

static bool readFill(StringRef text, TensorSpec &spec) {
  auto [withOffset, extremes] = text.split('!');
  auto [fill, offset] = withOffset.split('@');
  if ((!extremes.empty() && extremes.getAsInteger(10, spec.extremes)) ||
      (!offset.empty() && offset.getAsInteger(10, spec.offset)))
    return false;
  if (fill.consume_front("v=")) {
    spec.fill = TensorSpec::Fill::Listed;
    return c10::isIntegralType(spec.dtype, true) ? readIntegers(fill, spec.integers)
                                                 : readReals(fill, spec.reals);
  }
  if (!fill.consume_front("r="))
    return fill == "n";
  std::vector<double> bounds;
  if (!readReals(fill, bounds) || bounds.size() != 2)
    return false;
  spec.fill = TensorSpec::Fill::Random;
  spec.low = bounds[0], spec.high = bounds[1];
  return true;
}

Expected<CallValue> Reader::readTensor(StringRef text) {
  llvm::SmallVector<StringRef> fields;
  text.split(fields, ':');
  CallValue value{ValueKind::Tensor};
  const auto *dtype = llvm::find_if(kDTypes, [&](auto &known) { return fields[0] == known.first; });
  if (fields.size() != 4 || dtype == std::end(kDTypes))
    return fail("found '" + text + "', expected DTYPE:SIZES:STRIDES:FILL");
  value.tensor.dtype = dtype->second;
  if (!readIntegers(fields[1], value.tensor.sizes) || !readIntegers(fields[2], value.tensor.strides) ||
      !readFill(fields[3], value.tensor))
    return fail("found '" + text + "', which has no number where one is expected");
  return value;
}

Expected<CallValue> Reader::readItems(CallValue value, StringRef closing) {
  while (!ends(closing)) {
    if (next >= words.size())
      return fail("found the end, expected " + closing);
    Expected<CallValue> item = readValue();
    if (!item)
      return item.takeError();
    value.items.push_back(std::move(*item));
  }
  StringRef last = words[next++].drop_front();
  if (value.kind == ValueKind::Call && last.getAsInteger(10, value.integer))
    return fail("found '" + last + "', expected the number of a result");
  return value;
}

Expected<CallValue> Reader::readValue() {
  StringRef word = words[next++];
  if (word == "none")
    return CallValue{ValueKind::None};
  if (word == "undef")
    return CallValue{ValueKind::Undefined};
  if (word == "true" || word == "false")
    return CallValue{ValueKind::Bool, word == "true"};
  if (word.consume_front("t:"))
    return readTensor(word);
  if (word.consume_front("s:"))
    return CallValue{ValueKind::String, 0, 0, 0, unescape(word)};
  if (word.consume_front("d:"))
    return CallValue{ValueKind::Device, 0, 0, 0, word.str()};
  if (word.consume_front("["))
    return readItems(CallValue{ValueKind::List, 0, 0, 0, word.str()}, "]");
  if (word.consume_front("("))
    return readItems(CallValue{ValueKind::Tuple}, ")");
  if (word.consume_front("{"))
    return readItems(CallValue{ValueKind::Dict, 0, 0, 0, word.str()}, "}");
  if (word.consume_front("<"))
    return readItems(CallValue{ValueKind::Call, 0, 0, 0, word.str()}, ">");
  std::vector<double> reals;
  std::vector<int64_t> integers;
  if (word.consume_front("i:") && readIntegers(word, integers) && integers.size() == 1)
    return CallValue{ValueKind::Int, integers[0]};
  if (word.consume_front("f:") && readReals(word, reals) && reals.size() == 1)
    return CallValue{ValueKind::Float, 0, reals[0]};
  if (word.consume_front("c:") && readReals(word, reals) && reals.size() == 2)
    return CallValue{ValueKind::Complex, 0, reals[0], reals[1]};
  return fail("'" + word + "' is no value");
}

Expected<Call> Reader::readCall() {
  if (words.empty())
    return fail("found nothing, expected an operator");
  Call call{words[next++].str(), {}};
  while (next < words.size()) {
    Expected<CallValue> value = readValue();
    if (!value)
      return value.takeError();
    call.arguments.push_back(std::move(*value));
  }
  return call;
}

Expected<Call> parseCall(StringRef line) { return Reader(line).readCall(); }

//===- Writing ------------------------------------------------------------===//

static std::string join(const std::vector<int64_t> &numbers) {
  return llvm::join(llvm::map_range(numbers, [](int64_t number) { return std::to_string(number); }), ",");
}

/// With all digits that matter.
static std::string write(double number) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", number);
  return text;
}

static std::string join(const std::vector<double> &numbers) {
  return llvm::join(llvm::map_range(numbers, write), ",");
}

static std::string escape(StringRef text) {
  std::string result;
  for (char c : text)
    if (llvm::isAlnum(c) || StringRef("_-.").contains(c))
      result += c;
    else
      result += "%" + llvm::toHex(StringRef(&c, 1), /*LowerCase=*/true);
  return result;
}

static std::string writeTensor(const TensorSpec &spec) {
  std::string text =
      "t:" + nameOf(spec.dtype).str() + ":" + join(spec.sizes) + ":" + join(spec.strides) + ":";
  if (spec.fill == TensorSpec::Fill::Normal)
    text += "n";
  else if (spec.fill == TensorSpec::Fill::Random)
    text += "r=" + write(spec.low) + "," + write(spec.high);
  else
    text += "v=" + (c10::isIntegralType(spec.dtype, true) ? join(spec.integers) : join(spec.reals));
  if (spec.offset)
    text += "@" + std::to_string(spec.offset);
  if (spec.extremes)
    text += "!" + std::to_string(spec.extremes);
  return text;
}

static std::string write(const CallValue &value);

static std::string writeItems(const CallValue &value) {
  std::string text;
  for (const CallValue &item : value.items)
    text += " " + write(item);
  return text + " ";
}

static std::string write(const CallValue &value) {
  switch (value.kind) {
  case ValueKind::None:
    return "none";
  case ValueKind::Undefined:
    return "undef";
  case ValueKind::Bool:
    return value.integer ? "true" : "false";
  case ValueKind::Int:
    return "i:" + std::to_string(value.integer);
  case ValueKind::Float:
    return "f:" + write(value.real);
  case ValueKind::Complex:
    return "c:" + write(value.real) + "," + write(value.imaginary);
  case ValueKind::String:
    return "s:" + escape(value.text);
  case ValueKind::Device:
    return "d:" + value.text;
  case ValueKind::Tensor:
    return writeTensor(value.tensor);
  case ValueKind::List:
    return "[" + value.text + writeItems(value) + "]";
  case ValueKind::Tuple:
    return "(" + writeItems(value) + ")";
  case ValueKind::Dict:
    return "{" + value.text + writeItems(value) + "}";
  case ValueKind::Call:
    return "<" + value.text + writeItems(value) + ">" + std::to_string(value.integer);
  }
  return "";
}

std::string toText(const Call &call) {
  std::string text = call.op;
  for (const CallValue &value : call.arguments)
    text += " " + write(value);
  return text;
}

} // namespace cleave::operators
