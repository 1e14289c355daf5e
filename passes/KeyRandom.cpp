//===- KeyRandom.cpp - Random numbers by key and index --------------------===//
#include "ir/autograd/KeyRandom.h"
#include "ir/OperatorDialect.h"
#include "passes/Passes.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_KEYRANDOM
#include "passes/Passes.h.inc"

namespace {
struct KeyRandom : impl::KeyRandomBase<KeyRandom> {
  using KeyRandomBase::KeyRandomBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    registerOperatorDialects(registry);
    KeyRandomBase::getDependentDialects(registry);
  }

  void runOnOperation() override { keyRandom(getOperation(), batch); }
};
} // namespace

} // namespace cleave
