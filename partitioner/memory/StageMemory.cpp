//===- StageMemory.cpp - Bytes a stage holds while it runs ----------------===//
#include "partitioner/memory/StageMemory.h"
#include "ir/OperatorDialect.h"
#include "ir/semantics/OpSemantics.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace cleave {

namespace {
/// Simulates the executor's memory in a stage: a storage is alive while a slot refers to it.
class MemoryWalk {
public:
  MemoryWalk(const InferredValues &inferred, const ExampleShapes &shapes, int64_t threads,
             int64_t microbatches)
      : inferred(inferred), shapes(shapes), threads(threads), microbatches(microbatches) {}

  StageMemory run(const StageBody &body);

private:
  void ignore(Value value);
  void hold(Value value);
  void release(Value value);
  void visit(Operation *op);
  int64_t bytesOfSum(Value value) const;
  void addSum(Value value);
  ArrayRef<InferredValues::Storage> storagesOf(Value value) const {
    auto found = inferred.storages.find(value);
    return found == inferred.storages.end() ? ArrayRef<InferredValues::Storage>() : found->second;
  }

  const InferredValues &inferred;
  const ExampleShapes &shapes;
  const int64_t threads, microbatches;
  /// By storage: number of slots that refer to it.
  llvm::DenseMap<unsigned, unsigned> references;
  /// Storages that the stage does not own: those of weights, and of the request's inputs.
  llvm::DenseSet<unsigned> uncounted;
  /// Names of the sums that have begun.
  llvm::StringSet<> sums;
  llvm::DenseSet<Value> held;
  int64_t live = 0;
  StageMemory memory;
};
} // namespace

void MemoryWalk::ignore(Value value) {
  for (auto &storage : storagesOf(value))
    uncounted.insert(storage.id);
}

void MemoryWalk::hold(Value value) {
  if (!held.insert(value).second)
    return;
  for (auto &storage : storagesOf(value))
    if (!uncounted.contains(storage.id) && references[storage.id]++ == 0)
      live += storage.bytes;
}

void MemoryWalk::release(Value value) {
  if (!held.erase(value))
    return;
  for (auto &storage : storagesOf(value))
    if (!uncounted.contains(storage.id) && --references[storage.id] == 0)
      live -= storage.bytes;
}

int64_t workspaceOf(Operation *op, const ExampleShapes &shapes, int64_t threads) {
  if (auto vjp = dyn_cast<VjpOp>(op))
    return autogradBytesOf(vjp, shapes).value_or(0);
  auto call = dyn_cast<OperatorOp>(op);
  const OpSemantics *semantics = call ? &semanticsOf(call.getName()) : nullptr;
  return semantics && semantics->workspaceBytes ? semantics->workspaceBytes(call, shapes, threads) : 0;
}

void MemoryWalk::visit(Operation *op) {
  if (auto param = dyn_cast<ParamOp>(op)) {
    memory.weightBytes += shapes.bytesOf(param);
    return ignore(param);
  }
  // The session keeps the next value of a state beside the present one.
  if (auto state = dyn_cast<ReadStateOp>(op)) {
    live += 2 * shapes.bytesOf(state) * (state.getBatchDim() ? microbatches : 1);
    ignore(state);
  }
  if (auto sum = dyn_cast<ReadSumOp>(op)) {
    live += bytesOfSum(sum);
    ignore(sum);
  }
  if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
    if (sums.insert(accumulate.getName()).second)
      addSum(accumulate.getValue());
    // libtorch makes a wide copy of a narrow value before it adds it.
    const int64_t wide = bytesOfSum(accumulate.getValue());
    if (wide != shapes.bytesOf(accumulate.getValue()))
      memory.activationBytes = std::max(memory.activationBytes, live + wide);
  }
  // A prepacked weight is made when the plan is loaded; the original weight is not kept.
  bool isPrepared = prepacksWeights(op);
  for (Value result : op->getResults())
    isPrepared ? ignore(result) : hold(result);
  memory.activationBytes = std::max(memory.activationBytes, live + workspaceOf(op, shapes, threads));
}

/// Sums of floats narrower than float32 are float32.
int64_t MemoryWalk::bytesOfSum(Value value) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  const bool isNarrow = type && isa<FloatType>(type.getElementType()) && type.getElementTypeBitWidth() < 32;
  return shapes.bytesOf(value) * (isNarrow ? 32 / type.getElementTypeBitWidth() : 1);
}

/// A sum stays until the step ends. The first value becomes the sum if it has its memory to itself; otherwise
/// it is copied.
void MemoryWalk::addSum(Value value) {
  const int64_t bytes = bytesOfSum(value);
  ArrayRef<InferredValues::Storage> storages = storagesOf(value);
  const bool isMoved = storages.size() == 1 && storages[0].bytes == bytes && value.hasOneUse() &&
                       !uncounted.contains(storages[0].id) && references[storages[0].id] == 1;
  if (isMoved)
    ++references[storages[0].id];
  else
    live += bytes;
}

StageMemory MemoryWalk::run(const StageBody &body) {
  llvm::for_each(body.requestInputs, [&](Value value) { ignore(value); });
  llvm::for_each(body.inputs, [&](Value value) { hold(value); });
  // From the second micro-batch on, all sums are there from the start, which takes most.
  if (microbatches > 1)
    for (Operation *op : body.ops)
      if (auto accumulate = dyn_cast<AccumulateOp>(op);
          accumulate && sums.insert(accumulate.getName()).second)
        live += bytesOfSum(accumulate.getValue());
  memory.activationBytes = live;
  for (Operation *op : body.ops) {
    visit(op);
    for (Value value : body.lastUses.lookup(op))
      release(value);
  }
  return memory;
}

int64_t optimizerBytes(StageOp update, const ExampleShapes &shapes) {
  int64_t bytes = 0;
  for (UpdateWeightOp op : update.getBody().getOps<UpdateWeightOp>())
    bytes += int64_t(op.getStates().size()) * shapes.bytesOf(op.getWeight());
  return bytes;
}

static StageBody bodyOf(StageOp stage) {
  StageBody result;
  Block &block = stage.getBody().front();
  result.inputs.assign(block.args_begin(), block.args_end());
  for (auto [argument, operand] : llvm::zip(block.getArguments(), stage.getInputs()))
    if (isa<BlockArgument>(operand))
      result.requestInputs.push_back(argument);
  auto findLastUse = [&](Value value, Operation *maker) {
    Operation *last = maker;
    for (Operation *user : value.getUsers()) {
      Operation *here = block.findAncestorOpInBlock(*user);
      if (!last || last->isBeforeInBlock(here))
        last = here;
    }
    if (last)
      result.lastUses[last].push_back(value);
  };
  for (BlockArgument argument : block.getArguments())
    findLastUse(argument, nullptr);
  for (Operation &op : block) {
    for (Value value : op.getResults())
      findLastUse(value, &op);
    if (&op != block.getTerminator())
      result.ops.push_back(&op);
  }
  return result;
}

StageMemory memoryOf(const StageBody &body, const InferredValues &inferred, const ExampleShapes &shapes,
                     int64_t threads, int64_t microbatches) {
  return MemoryWalk(inferred, shapes, threads, microbatches).run(body);
}

StageMemory memoryOf(StageOp stage, const InferredValues &inferred, const ExampleShapes &shapes,
                     int64_t threads, int64_t microbatches) {
  return memoryOf(bodyOf(stage), inferred, shapes, threads, microbatches);
}

} // namespace cleave
