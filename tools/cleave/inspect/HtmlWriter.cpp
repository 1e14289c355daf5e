//===- HtmlWriter.cpp - Writes escaped HTML -------------------------------===//
#include "tools/cleave/inspect/HtmlWriter.h"
#include "codegen/plan/text/JsonText.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

namespace cleave {

void HtmlWriter::open(llvm::StringLiteral tag, Attributes attributes) {
  stream << "<" << tag;
  for (const Attribute &attribute : attributes) {
    stream << " " << attribute.name << "=\"";
    llvm::printHTMLEscaped(attribute.value, stream);
    stream << "\"";
  }
  stream << ">";
}

HtmlWriter::Element HtmlWriter::element(llvm::StringLiteral tag, Attributes attributes) {
  open(tag, attributes);
  return {*this, tag};
}

void HtmlWriter::leaf(llvm::StringLiteral tag, const llvm::Twine &content, Attributes attributes) {
  open(tag, attributes);
  text(content);
  stream << "</" << tag << ">";
}

void HtmlWriter::text(const llvm::Twine &content) { llvm::printHTMLEscaped(content.str(), stream); }

void HtmlWriter::amount(llvm::StringRef key, const llvm::json::Value &value, const llvm::Twine &shown) {
  leaf("data", shown, {{"class", key.str()}, {"value", plan::jsonText(value, /*indent=*/0)}});
}

void HtmlWriter::table(llvm::ArrayRef<llvm::StringRef> columns, llvm::function_ref<void()> writeRows) {
  auto scrolled = element("div", {{"class", "scrolled"}, {"tabindex", "0"}});
  auto table = element("table");
  {
    auto head = element("thead");
    auto row = element("tr");
    for (llvm::StringRef column : columns)
      leaf("th", column, {{"scope", "col"}});
  }
  auto body = element("tbody");
  writeRows();
}

void HtmlWriter::cell(llvm::StringRef key, const llvm::json::Value &value, const llvm::Twine &shown) {
  auto cell = element("td");
  amount(key, value, shown);
}

void HtmlWriter::name(llvm::StringRef dotted) {
  // Isolated, so that a right-to-left name does not reorder the text around it.
  open("bdi", {});
  while (!dotted.empty()) {
    size_t length = std::min(dotted.find('.'), dotted.size() - 1) + 1;
    text(dotted.take_front(length));
    dotted = dotted.drop_front(length);
    if (!dotted.empty())
      stream << "<wbr>";
  }
  stream << "</bdi>";
}

} // namespace cleave
