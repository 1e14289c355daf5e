//===- ParseCheck.h - Checks that IR parses ---------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_OPT_PARSECHECK_H
#define CLEAVE_TOOLS_CLEAVE_OPT_PARSECHECK_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/SourceMgr.h"

namespace cleave {

/// Fails on text that would overflow the stack of MLIR's recursive parser (deeply nested brackets, affine
/// expressions of many operators), and on control characters, which its messages repeat. The error begins
/// with the line.
llvm::Error checkIrText(llvm::StringRef text);

/// Parses `source` without verifying it, and drops the result. `refuse` gets the first error and must end the
/// process: after an error MLIR 19's parser may write to freed memory, if a function uses a name that is
/// defined in the function that does not parse.
void checkParses(const std::shared_ptr<llvm::SourceMgr> &source, mlir::MLIRContext &context,
                 llvm::function_ref<void(mlir::Diagnostic &)> refuse);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_OPT_PARSECHECK_H
