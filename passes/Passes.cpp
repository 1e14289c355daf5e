//===- Passes.cpp - Cleave's passes ---------------------------------------===//
#include "passes/Passes.h"
#include "passes/Simplify.h"

namespace cleave {

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

void registerPasses() {
  registerCleavePasses();
  mlir::registerPass(createCanonicalize);
  mlir::registerPass(createCse);
}

} // namespace cleave
