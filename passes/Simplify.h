//===- Simplify.h - MLIR's simplifications --------------------*- C++ -*-===//
#ifndef CLEAVE_PASSES_SIMPLIFY_H
#define CLEAVE_PASSES_SIMPLIFY_H

#include "mlir/Pass/Pass.h"
#include <memory>

namespace cleave {

/// MLIR's `canonicalize` and `cse` under the same names, around ParkedObserves, which takes `cleave.observe`
/// out of the IR and listens to what is replaced; MLIR's own passes take no listener.
std::unique_ptr<mlir::Pass> createCanonicalize();
std::unique_ptr<mlir::Pass> createCse();

} // namespace cleave

#endif // CLEAVE_PASSES_SIMPLIFY_H
