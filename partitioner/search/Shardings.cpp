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

int64_t mostRanksOf(func::FuncOp function, ArrayRef<WeightDecision> weights) {
  const AnalyzedFunction analyzed(function);
  // A group that ends at its weight has the most labels.
  const Shardings none(analyzed, 2);
  int64_t most = 1;
  for (const WeightDecision &weight : weights)
    for (unsigned dim = 0; dim < analyzed.typeOf({ParamOp(weight.weight)}).getRank(); ++dim)
      most = std::max<int64_t>(most, none.shardingGroupOf({weight.weight, dim, /*weightOnly=*/true}).count);
  return most;
}

} // namespace cleave
