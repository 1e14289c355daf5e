//===- ModuleList.h - Items of lists of modules -----------------*- C++ -*-===//
#ifndef CLEAVE_IR_MODULELIST_H
#define CLEAVE_IR_MODULELIST_H

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include <utility>

namespace cleave {

/// `{"h.", "h.3"}` for the module path `h.3.mlp`: the path in front of the index in the outermost ModuleList
/// or Sequential, and the path of the item; both are empty if no name in the path is a number. Views of
/// `path`.
inline std::pair<llvm::StringRef, llvm::StringRef> moduleListItem(llvm::StringRef path) {
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    if (llvm::all_of(path.slice(begin, end), [](char c) { return llvm::isDigit(c); }) && end > begin)
      return {path.take_front(begin), path.take_front(end)};
    begin = end + 1;
  }
  return {};
}

} // namespace cleave

#endif // CLEAVE_IR_MODULELIST_H
