//===- ParseCheck.h - Texts that do not parse -------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_OPT_PARSECHECK_H
#define CLEAVE_TOOLS_CLEAVE_OPT_PARSECHECK_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/SourceMgr.h"

namespace cleave {

/// Parses `source` and drops the result, without verifying it. `refuse` takes the first error and ends the
/// process: MLIR 19's parser may write to freed memory once it has given up, where a name that one function
/// uses is defined in the function that does not parse.
void checkParses(const std::shared_ptr<llvm::SourceMgr> &source, mlir::MLIRContext &context,
                 llvm::function_ref<void(mlir::Diagnostic &)> refuse);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_OPT_PARSECHECK_H
