//===- HtmlWriter.h - Writes escaped HTML -----------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLWRITER_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLWRITER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <initializer_list>
#include <string>

namespace cleave {

/// Writes HTML elements, which close themselves. Tags and attribute names are ours; texts and values are
/// escaped, so that they contain no markup.
class HtmlWriter {
public:
  struct Attribute {
    llvm::StringLiteral name;
    std::string value;
  };
  using Attributes = std::initializer_list<Attribute>;

  /// An element that stays open while this object lives.
  class Element {
  public:
    Element(HtmlWriter &writer, llvm::StringLiteral tag) : writer(writer), tag(tag) {}
    ~Element() { writer.stream << "</" << tag << ">\n"; }
    Element(const Element &) = delete;
    Element &operator=(const Element &) = delete;

  private:
    HtmlWriter &writer;
    llvm::StringLiteral tag;
  };

  explicit HtmlWriter(llvm::raw_ostream &stream) : stream(stream) {}

  [[nodiscard]] Element element(llvm::StringLiteral tag, Attributes attributes = {});
  /// Writes an element that contains only text.
  void leaf(llvm::StringLiteral tag, const llvm::Twine &content, Attributes attributes = {});
  void text(const llvm::Twine &content);
  /// Writes a number that `inspect --json` calls `key`: the exact value as an attribute, `shown` as text.
  void amount(llvm::StringRef key, const llvm::json::Value &value, const llvm::Twine &shown);
  /// Writes a dotted name, which may be wrapped at its dots.
  void name(llvm::StringRef dotted);
  /// Writes a table, which scrolls if it is long.
  void table(llvm::ArrayRef<llvm::StringRef> columns, llvm::function_ref<void()> writeRows);
  /// Writes a number as a table cell.
  void cell(llvm::StringRef key, const llvm::json::Value &value, const llvm::Twine &shown);

private:
  void open(llvm::StringLiteral tag, Attributes attributes);

  llvm::raw_ostream &stream;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLWRITER_H
