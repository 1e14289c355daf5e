//===- NearestName.h - Suggestions for misspelt names -----------*- C++ -*-===//
#ifndef CLEAVE_IR_NEARESTNAME_H
#define CLEAVE_IR_NEARESTNAME_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace cleave {

/// `; did you mean transformer.h?`: the one of `names` with the smallest edit distance from `wanted`, if that
/// is at most a third of the length of `wanted`; empty if there is none.
std::string didYouMean(llvm::StringRef wanted, llvm::ArrayRef<std::string> names);

} // namespace cleave

#endif // CLEAVE_IR_NEARESTNAME_H
