//===- Shardings.cpp - Shardings of all seeds -----------------------------===//
#include "partitioner/search/ShardingSearch.h"

using namespace mlir;

namespace cleave {

ShardingGroup Shardings::classOf(const ShardingSeed &seed, Answers *asked) const {
  auto isWhole = [&](TensorRef tensor) {
    const bool isDecided = tensors.contains(tensor);
    if (asked)
      asked->try_emplace(tensor, isDecided);
    return isDecided || (seed.isCut && !function.isMadeOfWeights(tensor.value));
  };
  return function.propagate(TensorRef{ParamOp(seed.weight)}, seed.dim, ranks, isWhole);
}

bool Shardings::answerAlike(const Answers &before) const {
  return llvm::all_of(before, [&](auto &answer) { return tensors.contains(answer.first) == answer.second; });
}

void Shardings::add(const ShardingGroup &found) {
  // What goes together mostly has the same labels, which are those of thousands of positions.
  const ShardAssignment *last = nullptr;
  ShardingAttr sharding;
  for (auto &[tensor, assignment] : found.tensors) {
    if (isa<BlockArgument>(tensor.value))
      continue;
    if (!last || last->dim != assignment.dim || last->labels != assignment.labels)
      sharding = shardingOf(tensor.value.getContext(), assignment, found, ranks);
    last = &assignment;
    // Of a part of a fused weight some ranks may have nothing: it is whole then.
    if (!llvm::is_contained(sharding.getExtents(), 0))
      tensors.insert({tensor, sharding});
  }
  for (TensorRef tensor : found.whole)
    if (!isa<BlockArgument>(tensor.value))
      tensors.insert({tensor, {}});
}

} // namespace cleave
