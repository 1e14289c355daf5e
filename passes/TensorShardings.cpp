//===- TensorShardings.cpp - Shardings as attributes of operations --------===//
#include "passes/TensorShardings.h"

using namespace mlir;

namespace cleave {

unsigned tensorRanksOf(Operation *function) {
  auto ranks = function->getAttrOfType<IntegerAttr>(kTensorRanksAttr);
  return ranks ? ranks.getInt() : 1;
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
