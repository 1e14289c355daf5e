//===- SpecializeRank.cpp - What one rank of a tensor group runs ----------===//
#include "codegen/SpecializeRank.h"
#include "ir/Cleave.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"

using namespace mlir;

namespace cleave {

static void specialize(PerRankOp op, unsigned rank) {
  OpBuilder b(op);
  op.replaceAllUsesWith(b.create<ConstantOp>(op.getLoc(), op.getType(), op.getValues()[rank]).getResult());
  op.erase();
}

static void specialize(FirstRankOp op, unsigned rank) {
  OpBuilder b(op);
  Value value = op.getValue();
  op.replaceAllUsesWith(
      rank == 0 ? value : b.create<ConstantOp>(op.getLoc(), b.getNoneType(), b.getUnitAttr()).getResult());
  op.erase();
  // The other ranks have no use for it. What is no weight stays: all ranks make the same exchanges.
  if (auto weight = value.getDefiningOp<ParamOp>(); weight && isOpTriviallyDead(weight))
    weight->erase();
}

/// Whether the type is another rank's.
static bool specialize(ParamOp op, unsigned rank) {
  auto shard = op.getShard();
  if (!shard || shard->extentOf(rank) == shard->extentOf(0))
    return false;
  auto type = cast<RankedTensorType>(op.getType());
  op.getResult().setType(RankedTensorType::get(shard->shapeOf(rank, type.getShape()), type.getElementType()));
  return true;
}

LogicalResult specializeRank(func::FuncOp function, unsigned rank) {
  bool hasOtherTypes = false;
  function.walk([&](PerRankOp op) {
    hasOtherTypes |= op.getValues()[rank] != op.getValues()[0];
    specialize(op, rank);
  });
  function.walk([&](FirstRankOp op) { specialize(op, rank); });
  function.walk([&](ParamOp op) { hasOtherTypes |= specialize(op, rank); });
  if (!hasOtherTypes)
    return success();
  PassManager passes(function.getContext(), func::FuncOp::getOperationName());
  passes.addPass(createInferTypes());
  return passes.run(function);
}

} // namespace cleave
