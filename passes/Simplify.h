//===- Simplify.h - MLIR's simplifications --------------------*- C++ -*-===//
#ifndef CLEAVE_PASSES_SIMPLIFY_H
#define CLEAVE_PASSES_SIMPLIFY_H

#include "mlir/Pass/Pass.h"
#include <memory>

namespace cleave {

/// MLIR's `canonicalize` and `cse`, under the same names. While they rewrite, `cleave.observe` operations are
/// out of the IR; a rewriter listener moves them to the values that take the place of theirs
/// (ir/ParkedObserves.h). MLIR's own passes accept no listener.
std::unique_ptr<mlir::Pass> createCanonicalize();
std::unique_ptr<mlir::Pass> createCse();

} // namespace cleave

#endif // CLEAVE_PASSES_SIMPLIFY_H
