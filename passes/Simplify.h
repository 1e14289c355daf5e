//===- Simplify.h - MLIR's simplifications --------------------*- C++ -*-===//
#ifndef CLEAVE_PASSES_SIMPLIFY_H
#define CLEAVE_PASSES_SIMPLIFY_H

#include "mlir/Pass/Pass.h"
#include <memory>

namespace cleave {

/// MLIR's `canonicalize` and `cse`, which do as if there were no observes (ir/ParkedObserves.h).
std::unique_ptr<mlir::Pass> createCanonicalize();
std::unique_ptr<mlir::Pass> createCse();

} // namespace cleave

#endif // CLEAVE_PASSES_SIMPLIFY_H
