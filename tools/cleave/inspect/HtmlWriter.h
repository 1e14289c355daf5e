//===- HtmlWriter.h - HTML in which text is data ----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLWRITER_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLWRITER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <initializer_list>
#include <string>

namespace cleave {

/// Writes elements, which close themselves. Tags and names of attributes are ours; texts and values are
/// escaped, so that nothing in them is markup.
class HtmlWriter {
public:
  struct Attribute {
    llvm::StringLiteral name;
    std::string value;
  };
  using Attributes = std::initializer_list<Attribute>;

  /// An element that lasts as long as this object.
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
  /// An element that holds only text.
  void leaf(llvm::StringLiteral tag, const llvm::Twine &content, Attributes attributes = {});
  void text(const llvm::Twine &content);
  /// What `inspect --json` calls `key`: its value, exactly, behind the text that people read.
  void amount(llvm::StringRef key, const llvm::json::Value &value, const llvm::Twine &shown);
  /// A dotted name, which may be broken at its dots.
  void name(llvm::StringRef dotted);
  /// A table, which scrolls where it is long.
  void table(llvm::ArrayRef<llvm::StringRef> columns, llvm::function_ref<void()> writeRows);
  /// An amount in a table.
  void cell(llvm::StringRef key, const llvm::json::Value &value, const llvm::Twine &shown);

private:
  void open(llvm::StringLiteral tag, Attributes attributes);

  llvm::raw_ostream &stream;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLWRITER_H
