//===- PlannedMemory.cpp - What plans would predict of memory -------------===//
#include "codegen/PlannedMemory.h"
#include "ir/semantics/OpSemantics.h"
#include "partitioner/Sharding.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <functional>

using namespace mlir;

namespace cleave {

namespace {
/// Puts operations into stages as split-stages does.
class StageBodies {
public:
  StageBodies(func::FuncOp function, const ModelGraph &model, ArrayRef<uint32_t> stageOf, uint32_t stages);
  std::vector<StageBody> take();
  /// The stage that gives a result of the function.
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
    /// Values that others take.
    llvm::DenseSet<Value> outputs;
  };
  void require(Value value, uint32_t stage);
  void add(Operation *op, uint32_t stage);

  std::vector<Stage> stages;
  llvm::DenseMap<Operation *, uint32_t> placed;
};
} // namespace

StageBodies::StageBodies(func::FuncOp function, const ModelGraph &model, ArrayRef<uint32_t> stageOf,
                         uint32_t count)
    : stages(count) {
  for (auto [ops, stage] : llvm::zip(model.nodes, stageOf))
    for (Operation *op : ops)
      placed[op] = stage;
  Block &block = function.getBody().front();
  for (Operation &op : block.without_terminator())
    if (auto found = placed.find(&op); found != placed.end())
      add(&op, found->second);
  for (Value result : block.getTerminator()->getOperands()) {
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
    target.body.requests.push_back(value);
}

void StageBodies::add(Operation *op, uint32_t stage) {
  if (!stages[stage].taken.insert(op).second)
    return;
  for (Value value : usedValues(op))
    require(value, stage);
  stages[stage].body.ops.push_back(op);
}

std::vector<StageBody> StageBodies::take() {
  std::vector<StageBody> bodies;
  for (Stage &stage : stages) {
    llvm::MapVector<Value, Operation *> last;
    for (Operation *op : stage.body.ops) {
      for (Value value : usedValues(op))
        last[value] = op;
      for (Value value : op->getResults())
        last[value] = op;
    }
    for (auto [value, op] : last)
      if (!stage.outputs.contains(value))
        stage.body.lastUses[op].push_back(value);
    bodies.push_back(std::move(stage.body));
  }
  return bodies;
}

//===- What they hold -----------------------------------------------------===//

PlannedMemory::PlannedMemory(func::FuncOp function, Microbatch given, const Machine &machine)
    : function(function), microbatch(std::move(given)), whole(function) {
  for (const DeviceSpec &device : machine.devices)
    threads.push_back(device.threads);
  leastThreads = *llvm::min_element(threads);
  auto ignore = [&](Value value) {
    if (auto found = microbatch.inferred.storages.find(value); found != microbatch.inferred.storages.end())
      for (const InferredValues::Storage &storage : found->second)
        foreign.insert(storage.id);
  };
  llvm::for_each(function.getArguments(), ignore);
  for (Operation &op : function.getBody().front())
    if (isa<ParamOp, StateOp>(op) || preparesWeights(&op))
      llvm::for_each(op.getResults(), ignore);
}

/// As many as a plan gives the stage.
int64_t PlannedMemory::threadsOf(uint32_t stage, uint32_t ranks) const {
  const unsigned tensorRanks = tensorRanksOf(function);
  return size_t(ranks) * tensorRanks > threads.size() ? 1 : threads[stage % ranks * tensorRanks];
}

/// The first rank of a group keeps the whole batch's, beside a micro-batch's.
int64_t PlannedMemory::givenBy(Value value) const { return microbatch.isPart ? whole.bytesOf(value) : 0; }

std::vector<RankMemory> PlannedMemory::of(const ModelGraph &model, ArrayRef<uint32_t> stageOf,
                                          uint32_t ranks) const {
  const uint32_t stages = *llvm::max_element(stageOf) + 1;
  StageBodies split(function, model, stageOf, stages);
  std::vector<int64_t> given(stages);
  for (Value result : function.getBody().front().getTerminator()->getOperands())
    given[split.giverOf(result)] += givenBy(result);
  std::vector<RankMemory> held(ranks);
  for (auto [stage, body] : llvm::enumerate(split.take())) {
    const StageMemory memory =
        memoryOf(body, microbatch.inferred, microbatch.shapes, threadsOf(stage, ranks));
    RankMemory &rank = held[stage % ranks];
    rank.weights += memory.weightBytes;
    rank.others = std::max(rank.others, memory.activationBytes + given[stage]);
  }
  return held;
}

/// The most that lives beside weights while one of them runs, at the least.
int64_t PlannedMemory::besideWeights(ArrayRef<Operation *> ops) const {
  int64_t most = 0, given = 0;
  for (Operation *op : ops) {
    llvm::SmallDenseSet<unsigned> seen;
    int64_t live = workspaceOf(op, microbatch.shapes, leastThreads);
    auto count = [&](Value value) {
      if (auto found = microbatch.inferred.storages.find(value); found != microbatch.inferred.storages.end())
        for (const InferredValues::Storage &storage : found->second)
          if (!foreign.contains(storage.id) && seen.insert(storage.id).second)
            live += storage.bytes;
    };
    llvm::for_each(usedValues(op), count);
    llvm::for_each(op->getResults(), count);
    most = std::max(most, live);
  }
  for (Value result : function.getBody().front().getTerminator()->getOperands())
    if (llvm::is_contained(ops, result.getDefiningOp()))
      given += givenBy(result);
  return most + given;
}

PlannedMemory::Needs PlannedMemory::needsOf(const ModelGraph &model) const {
  const StageGraph &graph = model.graph;
  Needs needs;
  // Beside each weight, in the node that has least there; no weight that nobody reads is held.
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
    needs.ofOne = std::max(needs.ofOne, own + beside);
  }
  llvm::sort(weights, std::greater<>());
  int64_t bytes = 0;
  for (auto [beside, own] : weights)
    if (beside >= 0)
      needs.ofAll.push_back({beside, bytes += own});
  return needs;
}

/// Whether ranks may do where those with less have `least` bytes.
static bool suffices(int64_t least, RoomsRef rooms, int64_t ofOne,
                     ArrayRef<std::pair<int64_t, int64_t>> ofAll) {
  std::vector<int64_t> bytes;
  for (const auto &room : rooms) {
    if (!room)
      return true;
    bytes.push_back(std::max(*room, least));
  }
  if (ofOne > *llvm::max_element(bytes))
    return false;
  return llvm::all_of(ofAll, [&](std::pair<int64_t, int64_t> need) {
    int64_t open = need.second;
    for (int64_t room : bytes)
      open -= std::clamp<int64_t>(room - need.first, 0, open);
    return open == 0;
  });
}

int64_t PlannedMemory::least(const ModelGraph &model, RoomsRef rooms) const {
  const Needs needs = needsOf(model);
  int64_t tooLittle = -1, enough = needs.ofOne;
  for (auto [beside, bytes] : needs.ofAll)
    enough = std::max<int64_t>(enough, beside + llvm::divideCeil(bytes, rooms.size()));
  while (enough - tooLittle > 1) {
    const int64_t middle = tooLittle + (enough - tooLittle) / 2;
    (suffices(middle, rooms, needs.ofOne, needs.ofAll) ? enough : tooLittle) = middle;
  }
  return enough;
}

} // namespace cleave
