//===- Passes.cpp - Cleave's passes ---------------------------------------===//
#include "passes/Passes.h"
#include "mlir/Transforms/Passes.h"

namespace cleave {

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

void registerPasses() {
  registerCleavePasses();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
}

} // namespace cleave
