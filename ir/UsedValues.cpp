//===- UsedValues.cpp - Values that an operation reads --------------------===//
#include "ir/UsedValues.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace cleave {

SmallVector<Value> usedValues(Operation *op) {
  llvm::SetVector<Value> used(op->operand_begin(), op->operand_end());
  for (Region &region : op->getRegions())
    getUsedValuesDefinedAbove(region, used);
  return SmallVector<Value>(used.begin(), used.end());
}

} // namespace cleave
