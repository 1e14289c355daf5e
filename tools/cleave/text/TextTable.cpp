//===- TextTable.cpp - Columns that line up -------------------------------===//
#include "tools/cleave/text/TextTable.h"
#include "codegen/plan/text/Printable.h"
#include "llvm/Support/Locale.h"
#include <algorithm>

namespace cleave {

void TextTable::add(std::vector<std::string> cells) {
  for (std::string &cell : cells)
    cell = plan::printable(cell);
  rows.push_back(std::move(cells));
}

/// Width in terminal columns; unprintable text counts its bytes.
static int widthOf(llvm::StringRef text) {
  int width = llvm::sys::locale::columnWidth(text);
  return width >= 0 ? width : static_cast<int>(text.size());
}

void TextTable::print(llvm::raw_ostream &stream, llvm::StringRef indent) const {
  std::vector<int> widths(columns.size());
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], widthOf(row[i]));
  for (const auto &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      std::string padding(widths[i] - widthOf(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (columns[i] == Align::Left ? row[i] + padding : padding + row[i]);
    }
    stream << indent << llvm::StringRef(line).rtrim() << "\n";
  }
}

} // namespace cleave
