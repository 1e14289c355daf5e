//===- Communication.cpp - Costs of the collectives that sharding inserts -===//
#include "partitioner/cost/Communication.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace cleave {

double CommunicationCosts::secondsOf(const ShardingGroup &found) const {
  double seconds = 0;
  llvm::SetVector<Value> gathered;
  for (OpResult sum : found.partialSums)
    seconds += allReduceSeconds({sum});
  for (OpOperand *use : found.gathers)
    gathered.insert(use->get());
  for (OpOperand *use : found.outputs)
    gathered.insert(use->get());
  for (OpResult result : found.reshards)
    gathered.insert(result);
  for (Value value : gathered)
    seconds += allGatherSeconds(AnalyzedFunction::tensorOf(value));
  return seconds;
}

//===- Lower bound --------------------------------------------------------===//

/// Finds paths through one sharding group.
class PathFinder {
public:
  using Collective = CommunicationBound::Collective;
  PathFinder(const CommunicationBound &bound, const ShardingGroup &found);

  CommunicationBound::Path pathFrom(TensorRef tensor);

private:
  /// The path from a tensor whose collective costs most, since a weight with several uses may follow any: the
  /// collective at its end, and the next tensor on it, which is null for the last one.
  struct Step {
    double seconds = 0;
    Collective end;
    TensorRef next;
  };

  Step stepFrom(TensorRef tensor);
  void endAt(TensorRef tensor, Collective collective);

  const CommunicationBound &bound;
  const ShardingGroup &found;
  llvm::DenseSet<OpOperand *> gathers;
  llvm::DenseSet<Operation *> sums;
  /// `ends`: tensors at which paths end. `known`: steps found already.
  llvm::DenseMap<TensorRef, Step> ends, known;
};

PathFinder::PathFinder(const CommunicationBound &bound, const ShardingGroup &found)
    : bound(bound), found(found) {
  gathers.insert(found.gathers.begin(), found.gathers.end());
  for (OpResult sum : found.partialSums)
    sums.insert(sum.getOwner());
  for (ArrayRef<OpOperand *> uses : {ArrayRef(found.gathers), ArrayRef(found.outputs)})
    for (OpOperand *use : uses)
      endAt(AnalyzedFunction::tensorOf(use->get()), {use->get(), 0});
}

void PathFinder::endAt(TensorRef tensor, Collective collective) {
  Step &end = ends[tensor];
  if (double seconds = bound.secondsOf(collective); !end.end.first || seconds > end.seconds)
    end = {seconds, collective, {}};
}

PathFinder::Step PathFinder::stepFrom(TensorRef tensor) {
  if (auto step = known.find(tensor); step != known.end())
    return step->second;
  for (const AnalyzedCall *call : bound.function.callsTaking(tensor))
    if (sums.contains(call->op))
      for (auto [operand, use] : llvm::zip(call->operands, call->uses))
        if (operand == tensor && !gathers.contains(use))
          endAt(tensor, {call->op->getResult(0), 1});
  Step best = ends.lookup(tensor);
  // A residual stream meets the collectives of all layers; those of the nearest are shared by the fewest.
  if (best.end.first && !bound.function.isMadeOfWeights(tensor.value))
    return known[tensor] = best;
  for (const AnalyzedCall *call : bound.function.callsTaking(tensor)) {
    bool isTaken = llvm::any_of(llvm::zip(call->operands, call->uses), [&](auto pair) {
      return std::get<0>(pair) == tensor && !gathers.contains(std::get<1>(pair));
    });
    if (isTaken && !sums.contains(call->op))
      for (TensorRef result : call->results)
        if (found.tensors.contains(result))
          if (Step after = stepFrom(result);
              after.end.first && (!best.end.first || after.seconds > best.seconds))
            best = {after.seconds, after.end, result};
  }
  return known[tensor] = best;
}

CommunicationBound::Path PathFinder::pathFrom(TensorRef tensor) {
  CommunicationBound::Path path;
  Step step = stepFrom(tensor);
  // A sharding group without collectives is free.
  if (!step.end.first)
    return path;
  for (; step.next.value; step = stepFrom(step.next))
    path.push_back({step.next.value, 0});
  path.push_back(step.end);
  return path;
}

double CommunicationBound::secondsOf(Collective collective) const {
  auto [value, isSum] = collective;
  return isSum ? costs.allReduceSeconds({value}) : costs.allGatherSeconds(AnalyzedFunction::tensorOf(value));
}

void CommunicationBound::add(const ShardingGroup &found, ArrayRef<TensorRef> weights) {
  PathFinder finder(*this, found);
  for (TensorRef weight : weights)
    paths[weight].push_back(finder.pathFrom(weight));
}

double CommunicationBound::secondsLowerBound(ArrayRef<TensorRef> shardedWeights) const {
  llvm::DenseMap<Collective, int64_t> bytes;
  for (TensorRef weight : shardedWeights) {
    llvm::SmallSetVector<Collective, 16> met;
    for (const Path &path : paths.lookup(weight))
      met.insert(path.begin(), path.end());
    for (Collective collective : met)
      bytes[collective] += function.bytesOf(weight);
  }
  double seconds = 0;
  for (TensorRef weight : shardedWeights) {
    std::optional<double> least;
    for (const Path &path : paths.lookup(weight)) {
      if (path.empty())
        least = 0;
      for (Collective collective : path)
        if (double share = secondsOf(collective) / std::max<int64_t>(bytes.lookup(collective), 1);
            !least || share < *least)
          least = share;
    }
    seconds += least.value_or(0) * function.bytesOf(weight);
  }
  return seconds;
}

} // namespace cleave
