//===- Passes.h - Cleave's passes -------------------------------*- C++ -*-===//
#ifndef CLEAVE_PASSES_PASSES_H
#define CLEAVE_PASSES_PASSES_H

#include "ir/Cleave.h"
#include "ir/autograd/Recompute.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

/// Registers Cleave's passes, and MLIR's canonicalize and cse, so that pipelines can be given as text.
void registerPasses();

/// On a function: the dtype that lower-precision has given to its contractions (`bf16`); absent for float32.
inline constexpr llvm::StringLiteral kPrecisionAttr = "cleave.precision";
/// Limit of the ranks in a plan.
inline constexpr uint32_t kMaxRanks = 65536;

} // namespace cleave

#endif // CLEAVE_PASSES_PASSES_H
