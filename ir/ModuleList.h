//===- ModuleList.h - Items of lists of modules -----------------*- C++ -*-===//
#ifndef CLEAVE_IR_MODULELIST_H
#define CLEAVE_IR_MODULELIST_H

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include <utility>

namespace cleave {

/// `h` and `h.3` for the module path `h.3.mlp`: the outermost list of modules and its item; empty if there is
/// none.
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
