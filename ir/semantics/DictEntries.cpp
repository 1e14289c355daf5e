//===- DictEntries.cpp - Operators that list a dict -----------------------===//
#include "ir/semantics/DictEntries.h"
#include "llvm/ADT/StringSwitch.h"

namespace cleave {

DictEntries dictEntriesOf(llvm::StringRef irName) {
  return llvm::StringSwitch<DictEntries>(irName.substr(0, irName.find('.', irName.find('.') + 1)))
      .Case("aten.keys", DictEntries::Keys)
      .Case("aten.values", DictEntries::Values)
      .Case("aten.items", DictEntries::Items)
      .Default(DictEntries::None);
}

} // namespace cleave
