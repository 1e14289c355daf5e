//===- DictEntries.h - Operators that list a dict ---------------*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_DICTENTRIES_H
#define CLEAVE_IR_SEMANTICS_DICTENTRIES_H

#include "llvm/ADT/StringRef.h"

namespace cleave {

/// What an operator lists of its operand, a dict, in the order of insertion.
enum class DictEntries { None, Keys, Values, Items };

/// \param irName  with or without overload.
DictEntries dictEntriesOf(llvm::StringRef irName);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_DICTENTRIES_H
