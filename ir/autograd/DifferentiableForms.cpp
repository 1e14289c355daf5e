//===- DifferentiableForms.cpp - Before operations are differentiated -----===//
#include "ir/autograd/DifferentiableForms.h"
#include "ir/OperatorDialect.h"
#include "ir/autograd/Differentiate.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace cleave {

void removeGradientStops(func::FuncOp function) {
  function.walk([](OperatorOp op) {
    // Autograd needs them.
    if (!semanticsOf(op.getName()).stopsGradients || op->getParentOfType<VjpOp>())
      return;
    op->getResult(0).replaceAllUsesWith(op->getOperand(0));
    op->erase();
  });
}

void useDifferentiableForms(func::FuncOp function) {
  function.walk([](OperatorOp op) {
    auto *form = semanticsOf(op.getName()).differentiableForm;
    if (!form)
      return;
    OpBuilder builder(op);
    const SmallVector<Value> results = form(op, builder);
    if (results.empty())
      return;
    op->replaceAllUsesWith(results);
    op->erase();
  });
}

} // namespace cleave
