//===- TrainingCosts.cpp - Costs of a training step -----------------------===//
#include "partitioner/cost/TrainingCosts.h"
#include "ir/ModuleList.h"
#include "ir/UsedValues.h"
#include "ir/semantics/AttentionCores.h"
#include "ir/semantics/Shapes.h"
#include "partitioner/cost/ModelGraph.h"
#include "partitioner/sharding/Sharding.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace cleave {

/// As in PyTorch's DDP.
static constexpr int64_t kBucketBytes = 25 << 20;

TrainingCosts::TrainingCosts(func::FuncOp function, const ExampleShapes &microbatch, const DeviceGroup &group,
                             const TrainingOptions &options, BackwardPassCache &backwards)
    : function(function), shapes(microbatch), group(group), backwards(backwards), options(options),
      ranks(tensorParallelSizeOf(function)), flow(function) {
  findPerRankValues();
  findGradientAllReduces();
  if (options.recompute == RecomputeKind::Full)
    findModuleListSegments();
  if (options.recompute == RecomputeKind::Selective)
    findAttentionSegments();
}

static std::optional<CollectiveKind> collectiveOf(Operation *op) {
  auto call = dyn_cast<OperatorOp>(op);
  return call ? semanticsOf(call.getName()).collective : std::nullopt;
}

//===- Tensor-parallel ranks ----------------------------------------------===//

void TrainingCosts::findPerRankValues() {
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto param = dyn_cast<ParamOp>(op);
    bool differs = isa<PerRankOp, FirstRankOp>(op) || (param && param.getShardAttr());
    op->walk([&](Operation *inner) {
      differs |=
          llvm::any_of(inner->getOperands(), [&](Value operand) { return perRankValues.contains(operand); });
    });
    if (auto kind = collectiveOf(op))
      differs = *kind == CollectiveKind::ReduceScatter || *kind == CollectiveKind::AllToAll;
    if (differs && !isa<func::FuncOp>(op))
      perRankValues.insert(op->result_begin(), op->result_end());
  });
}

/// A replicated value that each rank reads for its part of the work gets a partial gradient from each.
void TrainingCosts::findGradientAllReduces() {
  llvm::DenseSet<Value> known;
  function.walk([&](Operation *op) {
    auto call = dyn_cast<OperatorOp>(op);
    auto isSharded = [&](Value result) { return perRankValues.contains(result); };
    if (!call || collectiveOf(op) || !flow.isDifferentiated(op) || llvm::none_of(op->getResults(), isSharded))
      return;
    for (Value operand : flatOperands(call))
      if (Value storage = storageOf(operand);
          isReplicated(operand) && flow.requiresGrad(operand) && known.insert(storage).second)
        gradientAllReduces[op].push_back(storage);
  });
}

/// Fraction of the operation's work that one rank does.
double TrainingCosts::sequenceParallelFraction(Operation *op) const {
  auto isReplicatedValue = [&](Value result) { return isReplicated(result); };
  const bool isDivided = options.sequenceParallel && isa<OperatorOp>(op) && !collectiveOf(op) &&
                         op->getNumResults() > 0 && llvm::all_of(op->getResults(), isReplicatedValue);
  return isDivided ? 1.0 / ranks : 1;
}

int64_t TrainingCosts::activationBytes(Value storage) const {
  const int64_t bytes = shapes.bytesOf(storage);
  return options.sequenceParallel && isReplicated(storage) ? llvm::divideCeil(bytes, ranks) : bytes;
}

int64_t TrainingCosts::sentBytes(Value value) const {
  const int64_t bytes = shapes.bytesOf(value);
  return isReplicated(value) ? llvm::divideCeil(bytes, ranks) : bytes;
}

//===- Recomputation ------------------------------------------------------===//

void TrainingCosts::findModuleListSegments() {
  llvm::StringMap<Segment> segments;
  function.walk([&](OperatorOp op) {
    if (StringRef item = moduleListItem(modulePath(op)).second; !item.empty())
      recomputed[op] = notSaved[op] = segments.try_emplace(item, segments.size()).first->second;
  });
}

void TrainingCosts::findAttentionSegments() {
  SmallVector<Operation *> operations;
  function.walk([&](OperatorOp op) { operations.push_back(op); });
  for (auto [segment, core] : llvm::enumerate(attentionCores(operations, flow))) {
    for (Operation *op : core.operations)
      recomputed[op] = notSaved[op] = segment;
    // As in Megatron-LM, the last contraction is recomputed, too.
    recomputed[core.last] = segment;
  }
}

std::optional<TrainingCosts::Segment> TrainingCosts::segmentOf(Operation *op) const {
  auto found = op ? notSaved.find(op) : notSaved.end();
  return found == notSaved.end() ? std::nullopt : std::optional(found->second);
}

//===- Time ---------------------------------------------------------------===//

double TrainingCosts::allReduceSeconds(int64_t bytes) const {
  auto seconds = [&](CollectiveKind kind) {
    return group.dispatchSeconds() + group.collectives.seconds(kind, bytes, ranks);
  };
  return options.sequenceParallel
             ? seconds(CollectiveKind::ReduceScatter) + seconds(CollectiveKind::AllGather)
             : seconds(CollectiveKind::AllReduce);
}

double TrainingCosts::forwardSeconds(Operation *op) const {
  const double all = operationSeconds(op, shapes, group);
  if (auto kind = collectiveOf(op)) {
    // The loss is computed where the results are, so they are not gathered.
    auto isReturn = [](Operation *user) { return isa<func::ReturnOp>(user); };
    if (*kind == CollectiveKind::AllGather && llvm::all_of(op->getUsers(), isReturn))
      return 0;
    return *kind == CollectiveKind::AllReduce ? allReduceSeconds(shapes.bytesOf(op->getResult(0))) : all;
  }
  const double launch = std::min(all, group.dispatchSeconds());
  return launch + (all - launch) * sequenceParallelFraction(op);
}

/// Seconds of the collectives among tensor-parallel ranks for gradients.
double TrainingCosts::gradientCollectiveSeconds(Operation *op) const {
  double seconds = 0;
  if (auto values = gradientAllReduces.find(op); values != gradientAllReduces.end())
    for (Value value : values->second)
      seconds += allReduceSeconds(shapes.bytesOf(value));
  auto kind = collectiveOf(op);
  if (!kind || !flow.isDifferentiated(op))
    return seconds;
  // After a reduce-scatter the gradient is all-gathered; after an all-reduce or all-gather no communication.
  const int64_t bytes = std::max(shapes.bytesOf(op->getOperand(0)), shapes.bytesOf(op->getResult(0)));
  const CollectiveCosts &costs = group.collectives;
  if (*kind == CollectiveKind::ReduceScatter)
    seconds += costs.seconds(CollectiveKind::AllGather, bytes, ranks);
  if (*kind == CollectiveKind::AllToAll)
    seconds += costs.seconds(CollectiveKind::AllToAll, bytes, ranks);
  return seconds;
}

/// Seconds to add the gradients that a value gets from its users: for each but the first, two are read and
/// one is written.
double TrainingCosts::gradientAddSeconds(Operation *op) const {
  auto call = dyn_cast<OperatorOp>(op);
  double seconds = 0;
  for (Value result : op->getResults()) {
    if (!call || !flow.requiresGrad(result) || flow.isWeight(result) || shapes.bytesOf(result) == 0)
      continue;
    const int64_t users =
        llvm::count_if(result.getUsers(), [&](Operation *user) { return flow.isDifferentiated(user); });
    const double bytes = 3.0 * shapes.bytesOf(result) * sequenceParallelFraction(op);
    if (users > 1)
      seconds += (users - 1) * callSeconds({call, {0, bytes}, std::nullopt}, group);
  }
  return seconds;
}

TrainingCosts::Seconds TrainingCosts::secondsOf(Operation *op) const {
  const double share = sequenceParallelFraction(op);
  Seconds seconds{forwardSeconds(op), gradientCollectiveSeconds(op) + gradientAddSeconds(op), 0};
  if (auto call = dyn_cast<OperatorOp>(op)) {
    auto add = [&](double &sum, ArrayRef<GradientWork> gradients) {
      for (GradientWork gradient : gradients) {
        gradient.work = {gradient.work.flops * share, gradient.work.bytes * share};
        if (gradient.gemm)
          gradient.gemm->rows *= share;
        sum += callSeconds({gradient.call, gradient.work, gradient.gemm}, group);
      }
    };
    BackwardWork work = backwards.backwardPassOf(call, shapes, flow);
    add(seconds.inputGradient, work.inputGradients);
    add(seconds.weightGradient, work.weightGradients);
  }
  for (Region &region : op->getRegions())
    for (Operation &inner : region.getOps()) {
      Seconds part = secondsOf(&inner);
      seconds.inputGradient += part.inputGradient;
      seconds.weightGradient += part.weightGradient;
    }
  if (recomputed.count(op))
    seconds.inputGradient += seconds.forward;
  return seconds;
}

double TrainingCosts::seconds(Operation *op) const {
  const Seconds seconds = secondsOf(op);
  return seconds.forward + seconds.inputGradient + seconds.weightGradient;
}

//===- Memory -------------------------------------------------------------===//

/// Adds what the backward pass of a call reads, except for weights.
void TrainingCosts::addSavedValues(Operation *op, ActivationBytes &activations) const {
  auto call = dyn_cast<OperatorOp>(op);
  if (!call)
    return;
  BackwardWork work = backwards.backwardPassOf(call, shapes, flow);
  const auto own = recomputed.find(op);
  for (Value value : work.saved) {
    Value storage = storageOf(value);
    if (isa_and_nonnull<ParamOp>(storage.getDefiningOp()))
      continue;
    const int64_t whole = activationBytes(storage), bytes = whole ? whole : activationBytes(value);
    auto segment = segmentOf(storage.getDefiningOp());
    if (segment && own != recomputed.end() && own->second == *segment)
      activations.recomputed[{*segment, storage}] = bytes;
    else
      activations.saved[storage] = bytes;
  }
  activations.workspaceBytes = std::max(activations.workspaceBytes, work.workspaceBytes);
  const int64_t extra = work.extraBytes * sequenceParallelFraction(op);
  if (auto segment = segmentOf(op))
    activations.extraRecomputed[*segment] += extra;
  else
    activations.extraSaved += extra;
}

/// Adds the inputs from which a block is recomputed.
void TrainingCosts::addSegmentInputs(Operation *op, ActivationBytes &activations) const {
  auto segment = segmentOf(op);
  if (options.recompute != RecomputeKind::Full || !segment)
    return;
  for (Value value : usedValues(op)) {
    Value storage = storageOf(value);
    if (isTensorLike(value.getType()) && flow.dependsOnInputs(storage) &&
        segmentOf(storage.getDefiningOp()) != segment)
      activations.saved[storage] = activationBytes(storage);
  }
}

/// \param moved  adds the bytes that the optimizer step reads and writes.
void TrainingCosts::addWeight(Value value, TrainingStageCost &cost, double &moved) const {
  const int64_t bytes = shapes.bytesOf(value), elements = shapes.elementsOf(value);
  cost.stateBytes += bytes;
  if (!flow.requiresGrad(value))
    return;
  const bool isHalfPrecision = bytes < elements * int64_t(sizeof(float));
  const int64_t state =
      elements * (isHalfPrecision ? OptimizerBytes::kHalfState : OptimizerBytes::kFloat32State);
  const int64_t gradient = elements * OptimizerBytes::kGradient;
  cost.weightBytes += bytes;
  cost.gradientBytes += gradient;
  cost.optimizerBytes += state - gradient;
  cost.stateBytes += state;
  moved += double(elements) * (isHalfPrecision ? OptimizerBytes::kHalfMoves : OptimizerBytes::kFloat32Moves);
}

/// Adds all weights that the operations read, directly or through values that depend on weights alone.
/// \returns bytes of gradients by the operation that reads their weights first, after whose backward pass
/// they are complete.
std::vector<int64_t> TrainingCosts::addWeights(ArrayRef<Operation *> ops, TrainingStageCost &cost) const {
  llvm::DenseSet<Value> known;
  std::vector<int64_t> gradients;
  double moved = 0;
  std::optional<StringRef> lastItem;
  for (Operation *op : ops) {
    const int64_t weightsBefore = cost.weightBytes, gradientsBefore = cost.gradientBytes;
    SmallVector<Value> pending = usedValues(op);
    while (!pending.empty()) {
      Value value = pending.pop_back_val();
      Operation *maker = value.getDefiningOp();
      if (!maker || flow.dependsOnInputs(value) || !known.insert(value).second)
        continue;
      llvm::append_range(pending, usedValues(maker));
      if (isa<ParamOp>(maker))
        addWeight(value, cost, moved);
    }
    gradients.push_back(cost.gradientBytes - gradientsBefore);
    if (cost.weightBytes == weightsBefore)
      continue;
    const StringRef item = moduleListItem(modulePath(op)).second;
    if (lastItem != item)
      cost.layerBytes.push_back(0);
    cost.layerBytes.back() += cost.weightBytes - weightsBefore;
    lastItem = item;
  }
  for (const DeviceSpec &device : group.devices) {
    const bool hasRate = device.rates && !device.rates->otherOperators.isEmpty();
    const double rate = hasRate ? device.rates->otherOperators.at({moved}) : device.memoryBytesPerSecond;
    cost.update = std::max(cost.update, moved / rate);
  }
  return gradients;
}

TrainingStageCost TrainingCosts::stage(ArrayRef<Operation *> ops) const {
  TrainingStageCost cost;
  ActivationBytes activations;
  std::vector<Seconds> secondsOfOps;
  for (Operation *op : ops) {
    const Seconds seconds = secondsOfOps.emplace_back(secondsOf(op));
    cost.forward += seconds.forward;
    cost.inputGradient += seconds.inputGradient;
    cost.weightGradient += seconds.weightGradient;
    op->walk([&](Operation *inner) {
      addSavedValues(inner, activations);
      addSegmentInputs(inner, activations);
    });
  }
  cost.savedBytes = activations.extraSaved;
  for (auto &[storage, bytes] : activations.saved)
    cost.savedBytes += bytes;
  for (auto &[key, bytes] : activations.recomputed)
    activations.extraRecomputed[key.first] += bytes;
  for (auto &[segment, bytes] : activations.extraRecomputed)
    cost.recomputedBytes = std::max(cost.recomputedBytes, bytes);
  cost.recomputedBytes += activations.workspaceBytes;
  const std::vector<int64_t> gradients = addWeights(ops, cost);
  GradientBucket bucket{0, cost.inputGradient, cost.weightGradient};
  const size_t first = llvm::find_if(gradients, [](int64_t bytes) { return bytes > 0; }) - gradients.begin();
  for (size_t op = ops.size(); op-- > first;) {
    bucket.bytes += gradients[op];
    // Clamped, since the sum above adds in another order.
    bucket.inputPassSecondsLeft = std::max(0.0, bucket.inputPassSecondsLeft - secondsOfOps[op].inputGradient);
    bucket.weightPassSecondsLeft =
        std::max(0.0, bucket.weightPassSecondsLeft - secondsOfOps[op].weightGradient);
    if (bucket.bytes < kBucketBytes && op > first)
      continue;
    cost.buckets.push_back(bucket);
    bucket.bytes = 0;
  }
  return cost;
}

} // namespace cleave
