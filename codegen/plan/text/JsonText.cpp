//===- JsonText.cpp - JSON text for people --------------------------------===//
#include "codegen/plan/text/JsonText.h"
#include "codegen/plan/text/Printable.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <limits>
#include <vector>

namespace json = llvm::json;
using llvm::StringRef;

namespace cleave::plan {

std::string numberText(double number) {
  std::string text;
  for (int digits = std::numeric_limits<double>::digits10;
       digits <= std::numeric_limits<double>::max_digits10; ++digits) {
    text.clear();
    llvm::raw_string_ostream(text) << llvm::format("%.*g", digits, number);
    if (std::strtod(text.c_str(), nullptr) == number)
      break;
  }
  return text;
}

static void write(json::OStream &out, const json::Value &value) {
  if (const json::Array *array = value.getAsArray()) {
    out.array([&] {
      for (const json::Value &item : *array)
        write(out, item);
    });
  } else if (const json::Object *object = value.getAsObject()) {
    std::vector<const json::Object::value_type *> entries;
    for (const json::Object::value_type &entry : *object)
      entries.push_back(&entry);
    // The object is hashed.
    llvm::sort(entries, [](auto *a, auto *b) { return StringRef(a->first) < StringRef(b->first); });
    out.object([&] {
      for (const json::Object::value_type *entry : entries) {
        out.attributeBegin(entry->first);
        write(out, entry->second);
        out.attributeEnd();
      }
    });
  } else if (value.kind() == json::Value::Number && !value.getAsInteger() && !value.getAsUINT64()) {
    out.rawValue(numberText(*value.getAsNumber()));
  } else {
    out.value(value);
  }
}

std::string jsonText(const json::Value &value, unsigned indent) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream out(stream, indent);
  write(out, value);
  return printableJson(text);
}

} // namespace cleave::plan
