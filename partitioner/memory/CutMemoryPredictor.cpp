//===- CutMemoryPredictor.cpp - Memory as plans would predict it ----------===//
#include "partitioner/memory/CutMemoryPredictor.h"
#include "ir/UsedValues.h"
#include "ir/semantics/OpSemantics.h"
#include "partitioner/graph/MergedSignatures.h"
#include "partitioner/memory/SpecializeRank.h"
#include "partitioner/sharding/Sharding.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <functional>

using namespace mlir;

namespace cleave {

namespace {
/// Assigns operations of one signature to stages as split-stages does.
class StageBodies {
public:
  StageBodies(func::FuncOp function, const ModelGraph &model, ArrayRef<uint32_t> stageOf, uint32_t stages,
              unsigned signature);
  /// \param own  maps values of the function to those of a tensor-parallel rank's program; null if they are
  /// the same.
  std::vector<StageBody> of(const IRMapping *own) const;
  /// The stage that returns a result of the function.
  uint32_t giverOf(Value result) const {
    Operation *maker = result.getDefiningOp();
    auto found = maker ? placed.find(maker) : placed.end();
    return found == placed.end() ? uint32_t(stages.size() - 1) : found->second;
  }

private:
  struct Stage {
    StageBody body;
    llvm::DenseSet<Value> known;
    llvm::DenseSet<Operation *> taken;
    /// Values that other stages use.
    llvm::DenseSet<Value> outputs;
    SmallVector<Operation *> opsOf(const IRMapping &own) const;
  };
  void require(Value value, uint32_t stage);
  void add(Operation *op, uint32_t stage);

  std::vector<Stage> stages;
  llvm::DenseMap<Operation *, uint32_t> placed;
};
} // namespace

StageBodies::StageBodies(func::FuncOp function, const ModelGraph &model, ArrayRef<uint32_t> stageOf,
                         uint32_t count, unsigned signature)
    : stages(count) {
  for (auto [ops, stage] : llvm::zip(model.nodes, stageOf))
    for (Operation *op : ops)
      if (signatureIndexOf(op) == signature)
        placed[op] = stage;
  Block &block = function.getBody().front();
  for (Operation &op : block.without_terminator())
    if (auto found = placed.find(&op); found != placed.end())
      add(&op, found->second);
  for (Value result : resultsOf(function, signature)) {
    const uint32_t giver = giverOf(result);
    require(result, giver);
    stages[giver].outputs.insert(result);
  }
}

void StageBodies::require(Value value, uint32_t stage) {
  Stage &target = stages[stage];
  if (!target.known.insert(value).second)
    return;
  Operation *maker = value.getDefiningOp();
  auto from = maker ? placed.find(maker) : placed.end();
  if (maker && from == placed.end())
    return add(maker, stage);
  if (maker && from->second == stage)
    return;
  target.body.inputs.push_back(value);
  if (maker)
    stages[from->second].outputs.insert(value);
  else
    target.body.requestInputs.push_back(value);
}

void StageBodies::add(Operation *op, uint32_t stage) {
  if (!stages[stage].taken.insert(op).second)
    return;
  for (Value value : usedValues(op))
    require(value, stage);
  stages[stage].body.ops.push_back(op);
}

/// The stage's operations that remain on a rank other than 0 after specializeRank.
SmallVector<Operation *> StageBodies::Stage::opsOf(const IRMapping &own) const {
  llvm::DenseSet<Value> used(outputs);
  for (Operation *op : body.ops)
    if (!isa<FirstRankOp>(op))
      for (Value value : usedValues(op))
        used.insert(value);
  SmallVector<Operation *> left;
  for (Operation *op : body.ops)
    if (!isa<PerRankOp, FirstRankOp>(op) && !(isa<ParamOp>(op) && !used.contains(op->getResult(0))))
      left.push_back(own.lookup(op));
  return left;
}

std::vector<StageBody> StageBodies::of(const IRMapping *own) const {
  auto ownOf = [&](Value value) { return own ? own->lookup(value) : value; };
  std::vector<StageBody> bodies;
  for (const Stage &stage : stages) {
    StageBody &body = bodies.emplace_back();
    llvm::transform(stage.body.inputs, std::back_inserter(body.inputs), ownOf);
    llvm::transform(stage.body.requestInputs, std::back_inserter(body.requestInputs), ownOf);
    body.ops = own ? stage.opsOf(*own) : stage.body.ops;
    llvm::MapVector<Value, Operation *> last;
    for (Operation *op : body.ops) {
      for (Value value : usedValues(op))
        last[value] = op;
      for (Value value : op->getResults())
        last[value] = op;
    }
    for (Value output : stage.outputs)
      last.erase(ownOf(output));
    for (auto [value, op] : last)
      body.lastUses[op].push_back(value);
  }
  return bodies;
}

//===- Memory -------------------------------------------------------------===//

CutMemoryPredictor::CutMemoryPredictor(func::FuncOp function, int64_t microbatches, const Machine &machine,
                                       uint32_t dataParallelSize)
    : function(function), microbatches(microbatches), dataParallelSize(dataParallelSize), whole(function) {
  for (const DeviceSpec &device : machine.devices)
    threads.push_back(device.threads);
  leastThreads = *llvm::min_element(threads);
}

std::unique_ptr<CutMemoryPredictor> CutMemoryPredictor::make(func::FuncOp function, StringRef batch,
                                                             int64_t microbatches, const Machine &machine,
                                                             uint32_t dataParallelSize) {
  std::unique_ptr<CutMemoryPredictor> memory(
      new CutMemoryPredictor(function, microbatches, machine, dataParallelSize));
  if (failed(memory->addPrograms(batch)))
    return nullptr;
  memory->findUncountedStorages();
  return memory;
}

LogicalResult CutMemoryPredictor::addPrograms(StringRef batch) {
  llvm::MapVector<unsigned, std::vector<unsigned>> alike;
  for (auto [rank, same] : llvm::enumerate(ranksOfSameSizes(function, tensorParallelSizeOf(function))))
    alike[same].push_back(rank);
  for (auto &[first, ranks] : alike) {
    IRMapping own;
    OwningOpRef<func::FuncOp> specialized;
    if (first > 0) {
      specialized = cast<func::FuncOp>(function->clone(own));
      if (failed(specializeRank(*specialized, first)))
        return failure();
    }
    auto microbatch =
        Microbatch::of(specialized ? *specialized : function, batch, microbatches * dataParallelSize);
    if (failed(microbatch))
      return failure();
    programs.push_back({std::move(ranks), std::move(*microbatch), std::move(specialized), std::move(own)});
  }
  return success();
}

void CutMemoryPredictor::findUncountedStorages() {
  auto ignore = [&](Value value) {
    const auto &storages = microbatch().inferred.storages;
    if (auto found = storages.find(value); found != storages.end())
      for (const InferredValues::Storage &storage : found->second)
        uncountedStorages.insert(storage.id);
  };
  llvm::for_each(function.getArguments(), ignore);
  for (Operation &op : function.getBody().front())
    if (isa<ParamOp, ReadStateOp>(op) || prepacksWeights(&op))
      llvm::for_each(op.getResults(), ignore);
}

/// Distinct numbers of threads of the devices that run the program at a pipeline rank.
llvm::SmallSetVector<int64_t, 4> CutMemoryPredictor::threadsOf(const Program &program, uint32_t rank) const {
  llvm::SmallSetVector<int64_t, 4> found;
  for (unsigned tpRank : program.ranks)
    for (size_t dpRank = 0; dpRank < dataParallelSize; ++dpRank) {
      const size_t device =
          (size_t(rank) * dataParallelSize + dpRank) * tensorParallelSizeOf(function) + tpRank;
      found.insert(device < threads.size() ? threads[device] : 1);
    }
  return found;
}

std::vector<uint32_t> CutMemoryPredictor::fullestRankCandidates() const {
  std::vector<uint32_t> ranks;
  for (const Program &program : programs)
    ranks.push_back(program.ranks.front());
  return ranks;
}

/// Beside a micro-batch's outputs, the first tensor-parallel rank keeps those of the whole batch.
int64_t CutMemoryPredictor::requestOutputBytes(Value value) const {
  return microbatch().isPart ? whole.bytesOf(value) : 0;
}

/// Programs of one signature run at a time, with the weights of all.
/// \param signatures  stages of each signature.
/// \param given       of each signature, by stage: bytes of outputs that the rank keeps.
static RankMemory heldBy(ArrayRef<std::vector<StageBody>> signatures, ArrayRef<std::vector<int64_t>> given,
                         uint32_t rank, uint32_t ranks, const Microbatch &microbatch, int64_t threads,
                         int64_t microbatches) {
  RankMemory held;
  for (size_t stage = rank; stage < signatures.front().size(); stage += ranks) {
    llvm::DenseSet<Operation *> weights;
    for (auto [stages, kept] : llvm::zip(signatures, given)) {
      const StageBody &body = stages[stage];
      const StageMemory memory =
          memoryOf(body, microbatch.inferred, microbatch.shapes, threads, microbatches);
      held.activations = std::max(held.activations, memory.activationBytes + kept[stage]);
      for (Operation *op : body.ops)
        if (isa<ParamOp>(op) && weights.insert(op).second)
          held.weights += microbatch.shapes.bytesOf(op->getResult(0));
    }
  }
  return held;
}

std::vector<RankMemory> CutMemoryPredictor::of(const ModelGraph &model, ArrayRef<uint32_t> stageOf,
                                               uint32_t ranks) const {
  const uint32_t stages = *llvm::max_element(stageOf) + 1;
  std::vector<StageBodies> splits;
  std::vector<std::vector<int64_t>> given(signatureCountOf(function), std::vector<int64_t>(stages));
  for (auto [signature, kept] : llvm::enumerate(given)) {
    const StageBodies &split = splits.emplace_back(function, model, stageOf, stages, signature);
    for (Value result : resultsOf(function, signature))
      kept[split.giverOf(result)] += requestOutputBytes(result);
  }
  std::vector<RankMemory> held(ranks);
  for (const Program &program : programs) {
    std::vector<std::vector<StageBody>> bodies;
    for (const StageBodies &split : splits)
      bodies.push_back(split.of(program.specialized ? &program.own : nullptr));
    for (uint32_t rank = 0; rank < ranks; ++rank)
      for (int64_t count : threadsOf(program, rank)) {
        const RankMemory own = heldBy(bodies, given, rank, ranks, program.microbatch, count, microbatches);
        if (own.bytes() > held[rank].bytes())
          held[rank] = own;
      }
    // Only the first tensor-parallel rank holds the outputs.
    for (std::vector<int64_t> &kept : given)
      kept.assign(stages, 0);
  }
  return held;
}

/// Lower bound of the bytes alive beside weights while these operations run.
int64_t CutMemoryPredictor::besideWeights(ArrayRef<Operation *> ops) const {
  const auto &storages = microbatch().inferred.storages;
  int64_t most = 0, given = 0;
  for (Operation *op : ops) {
    llvm::SmallDenseSet<unsigned> seen;
    int64_t live = workspaceOf(op, microbatch().shapes, leastThreads);
    auto count = [&](Value value) {
      if (auto found = storages.find(value); found != storages.end())
        for (const InferredValues::Storage &storage : found->second)
          if (!uncountedStorages.contains(storage.id) && seen.insert(storage.id).second)
            live += storage.bytes;
    };
    llvm::for_each(usedValues(op), count);
    llvm::for_each(op->getResults(), count);
    most = std::max(most, live);
  }
  for (Value result : function.getBody().front().getTerminator()->getOperands())
    if (llvm::is_contained(ops, result.getDefiningOp()))
      given += requestOutputBytes(result);
  return most + given;
}

CutMemoryPredictor::Needs CutMemoryPredictor::needsOf(const ModelGraph &model) const {
  const StageGraph &graph = model.graph;
  Needs needs;
  // By weight: bytes beside it, in the node with fewest of them, and its own. Weights that nothing reads are
  // not held.
  std::vector<std::pair<int64_t, int64_t>> weights;
  for (int64_t bytes : graph.weightBytes)
    weights.push_back({-1, bytes});
  for (auto [node, ops] : llvm::zip(graph.nodes, model.nodes)) {
    const int64_t beside = besideWeights(ops);
    int64_t own = 0;
    for (uint32_t weight : node.weights) {
      own += graph.weightBytes[weight];
      int64_t &least = weights[weight].first;
      least = least < 0 ? beside : std::min(least, beside);
    }
    needs.largestNodeBytes = std::max(needs.largestNodeBytes, own + beside);
  }
  llvm::sort(weights, std::greater<>());
  int64_t bytes = 0;
  for (auto [beside, own] : weights)
    if (beside >= 0)
      needs.weightNeeds.push_back({beside, bytes += own});
  return needs;
}

/// True if the model may fit once all smaller budgets are raised to `least` bytes.
static bool suffices(int64_t least, MemoryBudgetsRef budgets, int64_t largestNodeBytes,
                     ArrayRef<std::pair<int64_t, int64_t>> weightNeeds) {
  std::vector<int64_t> bytes;
  for (const auto &room : budgets) {
    if (!room)
      return true;
    bytes.push_back(std::max(*room, least));
  }
  if (largestNodeBytes > *llvm::max_element(bytes))
    return false;
  return llvm::all_of(weightNeeds, [&](std::pair<int64_t, int64_t> need) {
    int64_t open = need.second;
    for (int64_t room : bytes)
      open -= std::clamp<int64_t>(room - need.first, 0, open);
    return open == 0;
  });
}

int64_t CutMemoryPredictor::lowerBound(const ModelGraph &model, MemoryBudgetsRef budgets) const {
  const Needs needs = needsOf(model);
  int64_t tooLittle = -1, enough = needs.largestNodeBytes;
  for (auto [beside, bytes] : needs.weightNeeds)
    enough = std::max<int64_t>(enough, beside + llvm::divideCeil(bytes, budgets.size()));
  while (enough - tooLittle > 1) {
    const int64_t middle = tooLittle + (enough - tooLittle) / 2;
    (suffices(middle, budgets, needs.largestNodeBytes, needs.weightNeeds) ? enough : tooLittle) = middle;
  }
  return enough;
}

} // namespace cleave
