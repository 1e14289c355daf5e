//===- TextTable.h - Columns that line up -----------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TEXT_TEXTTABLE_H
#define CLEAVE_TOOLS_CLEAVE_TEXT_TEXTTABLE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

namespace cleave {

enum class Align { Left, Right };

/// Rows of cells; columns are as wide as their widest cell and two spaces apart. Cells are made printable.
class TextTable {
public:
  /// One entry per column.
  explicit TextTable(std::vector<Align> columns) : columns(std::move(columns)) {}
  void add(std::vector<std::string> cells);
  /// Every line begins with `indent`.
  void print(llvm::raw_ostream &stream, llvm::StringRef indent = "") const;

private:
  std::vector<Align> columns;
  std::vector<std::vector<std::string>> rows;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TEXT_TEXTTABLE_H
