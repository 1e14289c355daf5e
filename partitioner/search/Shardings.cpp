//===- Shardings.cpp - Shardings of all seeds -----------------------------===//
#include "partitioner/search/ShardingSearch.h"

using namespace mlir;

namespace cleave {

ShardingGroup Shardings::shardingGroupOf(const ShardingSeed &seed, Dependencies *dependencies) const {
  auto isWhole = [&](TensorRef tensor) {
    const bool isDecided = tensors.contains(tensor);
    if (dependencies)
      dependencies->try_emplace(tensor, isDecided);
    return isDecided || (seed.weightOnly && !function.isMadeOfWeights(tensor.value));
  };
  return function.propagate(TensorRef{ParamOp(seed.weight)}, seed.dim, ranks, isWhole);
}

bool Shardings::isUnchanged(const Dependencies &dependencies) const {
  return llvm::all_of(dependencies, [&](auto &one) { return tensors.contains(one.first) == one.second; });
}

void Shardings::add(const ShardingGroup &found) {
  // Tensors of a group mostly have equal labels, for thousands of indices; the last sharding is reused.
  const LabelledDim *last = nullptr;
  ShardingAttr sharding;
  for (auto &[tensor, labelled] : found.tensors) {
    if (isa<BlockArgument>(tensor.value))
      continue;
    if (!last || last->dim != labelled.dim || last->labels != labelled.labels)
      sharding = shardingOf(tensor.value.getContext(), labelled, found, ranks);
    last = &labelled;
    // If some ranks would have nothing, as of a part of a fused weight, the tensor stays whole.
    if (!llvm::is_contained(sharding.getExtents(), 0))
      tensors.insert({tensor, sharding});
  }
  for (TensorRef tensor : found.replicated)
    if (!isa<BlockArgument>(tensor.value))
      tensors.insert({tensor, {}});
}

} // namespace cleave
