//===- ForwardPart.cpp - What is no backward pass -------------------------===//
#include "ir/autograd/ForwardPart.h"
#include "ir/UsedValues.h"
#include "ir/autograd/LossAttributes.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace cleave {

llvm::DenseSet<Operation *> forwardOperations(func::FuncOp function) {
  Block &body = function.getBody().front();
  llvm::DenseSet<Operation *> found;
  auto require = [&](Value value) {
    if (Operation *maker = value.getDefiningOp())
      found.insert(maker);
  };
  for (OpOperand &result : body.getTerminator()->getOpOperands())
    if (!function.getResultAttr(result.getOperandNumber(), kGradientAttr))
      require(result.get());
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (op.hasAttr(kGradientAttr) || (!found.contains(&op) && isMemoryEffectFree(&op)))
      continue;
    found.insert(&op);
    for (Value value : usedValues(&op))
      require(value);
  }
  return found;
}

void numberOperations(func::FuncOp function) {
  Builder b(function.getContext());
  for (auto [number, op] : llvm::enumerate(function.getBody().front().without_terminator()))
    op.setLoc(FusedLoc::get({op.getLoc()}, b.getI64IntegerAttr(number), b.getContext()));
}

std::optional<int64_t> forwardNumberOf(Operation *op) {
  auto location = dyn_cast<FusedLoc>(op->getLoc());
  auto number = location ? dyn_cast_or_null<IntegerAttr>(location.getMetadata()) : IntegerAttr();
  return number ? std::optional(number.getInt()) : std::nullopt;
}

} // namespace cleave
