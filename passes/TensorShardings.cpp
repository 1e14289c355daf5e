//===- TensorShardings.cpp - Shardings as attributes of operations --------===//
#include "passes/TensorShardings.h"

using namespace mlir;

namespace cleave {

static LogicalResult checkSharding(Operation *op, Value value, ShardingAttr sharding, int64_t ranks) {
  if (int64_t(sharding.getRanks().size()) != ranks)
    return op->emitError() << "is split over " << sharding.getRanks().size() << " ranks, expected " << ranks;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  // The type of a list's item is not known here.
  if (!type)
    return success();
  if (sharding.getDim() >= type.getRank() || sharding.getSize() != type.getDimSize(sharding.getDim()))
    return op->emitError() << "found " << sharding << ", which is no split of " << type;
  return success();
}

LogicalResult checkShardings(func::FuncOp function) {
  auto ranks = function->getAttrOfType<IntegerAttr>(kTensorParallelSizeAttr);
  if (ranks && (ranks.getInt() < 1 || ranks.getInt() > kMaxTensorParallelSize))
    return function.emitError() << kTensorParallelSizeAttr << ": found " << ranks.getInt()
                                << ", expected 1 to " << kMaxTensorParallelSize;
  WalkResult walk = function.walk([&](Operation *op) {
    auto all = op->getAttrOfType<ArrayAttr>(kShardingsAttr);
    for (unsigned i = 0; all && i < all.size(); ++i) {
      auto sharding = dyn_cast<ShardingAttr>(all[i]);
      Value value = op->getNumResults() ? op->getResult(std::min(i, op->getNumResults() - 1)) : Value();
      if (sharding && (!value || failed(checkSharding(op, value, sharding, ranks ? ranks.getInt() : 1))))
        return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

static unsigned indexOf(TensorRef tensor) {
  return isTensorLike(tensor.value.getType()) ? cast<OpResult>(tensor.value).getResultNumber() : tensor.item;
}

ShardingAttr shardingOf(TensorRef tensor) {
  Operation *op = tensor.value ? tensor.value.getDefiningOp() : nullptr;
  auto all = op ? op->getAttrOfType<ArrayAttr>(kShardingsAttr) : ArrayAttr();
  unsigned index = all ? indexOf(tensor) : 0;
  return all && index < all.size() ? dyn_cast<ShardingAttr>(all[index]) : ShardingAttr();
}

void setSharding(TensorRef tensor, ShardingAttr sharding) {
  Operation *op = tensor.value.getDefiningOp();
  auto known = op->getAttrOfType<ArrayAttr>(kShardingsAttr);
  if (!sharding && !known)
    return;
  SmallVector<Attribute> all;
  if (known)
    llvm::append_range(all, known);
  unsigned index = indexOf(tensor);
  if (all.size() <= index)
    all.resize(index + 1, UnitAttr::get(op->getContext()));
  all[index] = sharding ? Attribute(sharding) : UnitAttr::get(op->getContext());
  if (llvm::all_of(all, [](Attribute entry) { return isa<UnitAttr>(entry); }))
    op->removeAttr(kShardingsAttr);
  else
    op->setAttr(kShardingsAttr, ArrayAttr::get(op->getContext(), all));
}

} // namespace cleave
