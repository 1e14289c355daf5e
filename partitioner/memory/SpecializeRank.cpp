//===- SpecializeRank.cpp - The program of one tensor-parallel rank -------===//
#include "partitioner/memory/SpecializeRank.h"
#include "ir/Cleave.h"
#include "ir/OperatorDialect.h"
#include "ir/inference/InferTypes.h"
#include "ir/semantics/OpSemantics.h"
#include <map>

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
  // Ranks other than 0 do not use it. Only weights go, since all ranks must call the same collectives.
  if (auto weight = value.getDefiningOp<ParamOp>(); weight && isOpTriviallyDead(weight))
    weight->erase();
}

/// Specializes a weight, or a sum of gradients; true if the type has changed.
template <typename ShardedOp> static bool specialize(ShardedOp op, unsigned rank) {
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
  function.walk([&](ReadSumOp op) { hasOtherTypes |= specialize(op, rank); });
  return hasOtherTypes ? inferTypes(function) : success();
}

//===- Ranks with equal sizes ---------------------------------------------===//

/// True if the argument selects elements or values, without changing sizes.
static bool isOfNoSize(const OpSemantics &semantics, StringRef argument) {
  // Gathered pieces differ only on the first rank, if it alone gathers.
  return semantics.isElementwise || semantics.collective == CollectiveKind::AllGather ||
         (!argument.empty() && (argument == semantics.rangeStart || argument == semantics.addendScale));
}

/// Appends the sizes of an argument; of ranges, only the lengths count.
static void appendSizes(OpOperand &use, Attribute value, std::vector<const void *> &sizes) {
  auto op = dyn_cast<OperatorOp>(use.getOwner());
  if (!op)
    return sizes.push_back(value.getAsOpaquePointer());
  const OpSemantics &semantics = semanticsOf(op.getName());
  const StringRef argument = op.getArgumentName(use.getOperandNumber());
  if (isOfNoSize(semantics, argument))
    return;
  auto ranges = dyn_cast<ArrayAttr>(value);
  if (!ranges || argument.empty() || argument != semantics.ranges)
    return sizes.push_back(value.getAsOpaquePointer());
  for (size_t i = 1; i < ranges.size(); i += 2)
    sizes.push_back(ranges[i].getAsOpaquePointer());
  sizes.push_back(nullptr);
}

/// A key of the sizes of a rank's values: ranks with equal keys have equal sizes.
static std::vector<const void *> sizesOf(func::FuncOp function, unsigned rank) {
  std::vector<const void *> sizes;
  Builder b(function.getContext());
  function.walk([&](Operation *op) {
    if (auto param = dyn_cast<ParamOp>(op); param && param.getShard())
      sizes.push_back(b.getI64IntegerAttr(param.getShard()->extentOf(rank)).getAsOpaquePointer());
    if (auto perRank = dyn_cast<PerRankOp>(op))
      for (OpOperand &use : perRank->getUses())
        appendSizes(use, perRank.getValues()[rank], sizes);
    // Values other than weights stay although nothing uses them.
    if (auto first = dyn_cast<FirstRankOp>(op); first && rank > 0)
      if (Operation *maker = first.getValue().getDefiningOp();
          !maker || !(isa<ParamOp>(maker) || prepacksWeights(maker)))
        sizes.push_back(op);
  });
  return sizes;
}

std::vector<unsigned> ranksOfSameSizes(func::FuncOp function, unsigned ranks) {
  std::map<std::vector<const void *>, unsigned> known;
  std::vector<unsigned> same;
  for (unsigned rank = 0; rank < ranks; ++rank)
    same.push_back(known.try_emplace(sizesOf(function, rank), rank).first->second);
  return same;
}

} // namespace cleave
