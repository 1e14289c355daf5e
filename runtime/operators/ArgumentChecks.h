//===- ArgumentChecks.h - What single operators need of arguments -*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKS_H
#define CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <ATen/core/ivalue.h>

namespace cleave::runtime {

/// Throws c10::Error where a kernel would use the arguments though they do not go together.
using ArgumentCheck = void (*)(llvm::ArrayRef<c10::IValue> arguments);

/// The check of an operator (`aten::lstm`, `data`); null where libtorch's own checks are enough. What
/// libtorch leaves unchecked was found by hostile calls (docs/operators.md).
ArgumentCheck argumentCheckOf(llvm::StringRef name, llvm::StringRef overload);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKS_H
