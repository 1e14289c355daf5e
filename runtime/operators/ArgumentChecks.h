//===- ArgumentChecks.h - Argument checks of single operators ---*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKS_H
#define CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <ATen/core/ivalue.h>

namespace cleave::runtime {

/// Throws c10::Error if the arguments do not match each other in a way that the kernel does not check itself.
using ArgumentCheck = void (*)(llvm::ArrayRef<c10::IValue> arguments);

/// The check of an operator (`aten::lstm`, overload `data`); null where libtorch's own checks suffice. Fuzzed
/// calls found the operators that need one (docs/operators.md).
ArgumentCheck argumentCheckOf(llvm::StringRef name, llvm::StringRef overload);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKS_H
