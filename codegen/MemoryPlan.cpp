//===- MemoryPlan.cpp - Bytes a stage holds while it runs -----------------===//
#include "codegen/MemoryPlan.h"
#include "ir/OperatorDialect.h"
#include "ir/semantics/OpSemantics.h"

using namespace mlir;

namespace cleave {

namespace {
/// Follows the executor through a stage: storages are alive while a slot refers to them.
class MemoryWalk {
public:
  MemoryWalk(const InferredValues &inferred, const TracedShapes &shapes, int64_t threads)
      : inferred(inferred), shapes(shapes), threads(threads) {}

  StageMemory run(StageOp stage);

private:
  void ignore(Value value);
  void hold(Value value);
  void release(Value value);
  void visit(Operation *op);
  int64_t workspaceOf(Operation *op) const;
  ArrayRef<InferredValues::Storage> storagesOf(Value value) const {
    auto found = inferred.storages.find(value);
    return found == inferred.storages.end() ? ArrayRef<InferredValues::Storage>() : found->second;
  }

  const InferredValues &inferred;
  const TracedShapes &shapes;
  const int64_t threads;
  /// Slots that refer to a storage.
  llvm::DenseMap<unsigned, unsigned> references;
  /// Storages that somebody else owns: weights, and the request's inputs.
  llvm::DenseSet<unsigned> foreign;
  llvm::DenseSet<Value> held;
  int64_t live = 0;
  StageMemory memory;
};
} // namespace

void MemoryWalk::ignore(Value value) {
  for (auto &storage : storagesOf(value))
    foreign.insert(storage.id);
}

void MemoryWalk::hold(Value value) {
  if (!held.insert(value).second)
    return;
  for (auto &storage : storagesOf(value))
    if (!foreign.contains(storage.id) && references[storage.id]++ == 0)
      live += storage.bytes;
}

void MemoryWalk::release(Value value) {
  if (!held.erase(value))
    return;
  for (auto &storage : storagesOf(value))
    if (!foreign.contains(storage.id) && --references[storage.id] == 0)
      live -= storage.bytes;
}

int64_t MemoryWalk::workspaceOf(Operation *op) const {
  auto call = dyn_cast<OperatorOp>(op);
  const OpSemantics *semantics = call ? &semanticsOf(call.getName()) : nullptr;
  return semantics && semantics->workspaceBytes ? semantics->workspaceBytes(call, shapes, threads) : 0;
}

void MemoryWalk::visit(Operation *op) {
  if (auto param = dyn_cast<ParamOp>(op)) {
    memory.weightBytes += shapes.bytesOf(param);
    return ignore(param);
  }
  // Beside what a state was, the session keeps what it is to be.
  if (auto state = dyn_cast<StateOp>(op)) {
    live += 2 * shapes.bytesOf(state);
    ignore(state);
  }
  // Made when the plan is loaded, of weights that nobody reads afterwards.
  bool isPrepared = preparesWeights(op);
  for (Value result : op->getResults())
    isPrepared ? ignore(result) : hold(result);
  memory.activationBytes = std::max(memory.activationBytes, live + workspaceOf(op));
}

StageMemory MemoryWalk::run(StageOp stage) {
  Block &body = stage.getBody().front();
  for (auto [argument, operand] : llvm::zip(body.getArguments(), stage.getInputs()))
    if (isa<BlockArgument>(operand))
      ignore(argument);
  for (BlockArgument argument : body.getArguments())
    hold(argument);
  // Values by the operation that uses them last; a use inside a region counts for the operation around it.
  llvm::DenseMap<Operation *, SmallVector<Value>> lastUses;
  auto findLastUse = [&](Value value, Operation *maker) {
    Operation *last = maker;
    for (Operation *user : value.getUsers()) {
      Operation *here = body.findAncestorOpInBlock(*user);
      if (!last || last->isBeforeInBlock(here))
        last = here;
    }
    if (last)
      lastUses[last].push_back(value);
  };
  for (BlockArgument argument : body.getArguments())
    findLastUse(argument, nullptr);
  for (Operation &op : body)
    for (Value result : op.getResults())
      findLastUse(result, &op);
  memory.activationBytes = live;
  for (Operation &op : body.without_terminator()) {
    visit(&op);
    for (Value value : lastUses.lookup(&op))
      release(value);
  }
  return memory;
}

StageMemory memoryOf(StageOp stage, const InferredValues &inferred, const TracedShapes &shapes, int64_t threads) {
  return MemoryWalk(inferred, shapes, threads).run(stage);
}

} // namespace cleave
