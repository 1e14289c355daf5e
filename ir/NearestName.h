//===- NearestName.h - What a misspelt name was to be -----------*- C++ -*-===//
#ifndef CLEAVE_IR_NEARESTNAME_H
#define CLEAVE_IR_NEARESTNAME_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace cleave {

/// `; did you mean transformer.h?`: the one of `names` that differs from `wanted` in the fewest letters, at
/// most a third of them; else nothing.
std::string didYouMean(llvm::StringRef wanted, llvm::ArrayRef<std::string> names);

} // namespace cleave

#endif // CLEAVE_IR_NEARESTNAME_H
