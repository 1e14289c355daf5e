//===- StageMemory.cpp - Bytes a stage holds while it runs ----------------===//
#include "partitioner/memory/StageMemory.h"
#include "ir/OperatorDialect.h"
#include "ir/semantics/OpSemantics.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"
#include <set>

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
  /// Runs the programs of one stage in the order of a schedule.
  StageMemory run(ArrayRef<StageOp> programs, ArrayRef<const plan::Action *> actions);

private:
  /// A value of the function comes to this rank, or is made there, and is kept for so many readers.
  void arrive(Value value, unsigned readers);
  void read(Value value);
  /// Runs a program of stage `own` for the present micro-batch.
  void runProgram(StageOp program, int64_t own);
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
  /// Where several are in flight; those of an update are those of micro-batch 0.
  unsigned microbatch = 0;
  /// By micro-batch and storage: number of slots that refer to it.
  llvm::DenseMap<std::pair<unsigned, unsigned>, unsigned> references;
  /// Storages that the stage does not own: those of weights, and of the request's inputs.
  llvm::DenseSet<unsigned> uncounted;
  /// Names of the sums that have begun, and of the states.
  llvm::StringSet<> sums, states;
  llvm::DenseSet<std::pair<unsigned, Value>> held;
  /// By micro-batch and value of the function: programs and stages that have not taken it yet.
  llvm::DenseMap<std::pair<unsigned, Value>, unsigned> readersLeft;
  ArrayRef<StageOp> stagePrograms;
  int64_t live = 0;
  StageMemory memory;
};
} // namespace

void MemoryWalk::ignore(Value value) {
  for (auto &storage : storagesOf(value))
    uncounted.insert(storage.id);
}

void MemoryWalk::hold(Value value) {
  if (!held.insert({microbatch, value}).second)
    return;
  for (auto &storage : storagesOf(value))
    if (!uncounted.contains(storage.id) && references[{microbatch, storage.id}]++ == 0)
      live += storage.bytes;
}

void MemoryWalk::release(Value value) {
  if (!held.erase({microbatch, value}))
    return;
  for (auto &storage : storagesOf(value))
    if (!uncounted.contains(storage.id) && --references[{microbatch, storage.id}] == 0)
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
    if (states.insert(state.getName()).second)
      live += 2 * shapes.bytesOf(state) * (state.getBatchDim() ? microbatches : 1);
    ignore(state);
  }
  if (auto sum = dyn_cast<ReadSumOp>(op)) {
    if (sums.insert(sum.getName()).second)
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
                       !uncounted.contains(storages[0].id) && references[{microbatch, storages[0].id}] == 1;
  if (isMoved)
    ++references[{microbatch, storages[0].id}];
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

static bool isOfPhase(StageOp program, plan::Phase phase) {
  return static_cast<plan::Phase>(program.getPhase()) == phase;
}

/// Whether a program of stage `stage` takes the value.
static bool isTakenBy(Value value, int64_t stage) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    auto taker = dyn_cast<StageOp>(user);
    return taker && int64_t(taker.getIndex()) == stage;
  });
}

void MemoryWalk::arrive(Value value, unsigned readers) {
  if (readers == 0)
    return;
  readersLeft[{microbatch, value}] = readers;
  hold(value);
}

void MemoryWalk::read(Value value) {
  auto left = readersLeft.find({microbatch, value});
  if (left == readersLeft.end() || --left->second > 0)
    return;
  readersLeft.erase(left);
  release(value);
}

void MemoryWalk::runProgram(StageOp program, int64_t own) {
  auto ownReaders = [&](Value value) {
    return llvm::count_if(stagePrograms,
                          [&](StageOp other) { return llvm::is_contained(other.getInputs(), value); });
  };
  const llvm::SetVector<Value> inputs(program.getInputs().begin(), program.getInputs().end());
  for (Value input : inputs) // Of stages of this rank, which send nothing.
    if (auto giver = input.getDefiningOp<StageOp>();
        giver && int64_t(giver.getIndex()) != own && !readersLeft.contains({microbatch, input}))
      arrive(input, ownReaders(input));
  const StageBody body = bodyOf(program);
  llvm::for_each(body.requestInputs, [&](Value value) { ignore(value); });
  llvm::for_each(body.inputs, [&](Value value) { hold(value); });
  // The last reader drops what it takes at its last use.
  llvm::for_each(inputs, [&](Value value) { read(value); });
  for (Operation *op : body.ops) {
    visit(op);
    for (Value value : body.lastUses.lookup(op))
      release(value);
  }
  for (Value result : program.getResults()) {
    std::set<int64_t> others;
    for (Operation *user : result.getUsers())
      if (auto taker = dyn_cast<StageOp>(user); taker && int64_t(taker.getIndex()) != own)
        others.insert(taker.getIndex());
    arrive(result, ownReaders(result) + others.size());
  }
  for (Value yielded : program.getBody().front().getTerminator()->getOperands())
    release(yielded);
  for (Value argument : program.getBody().front().getArguments())
    release(argument);
}

StageMemory MemoryWalk::run(ArrayRef<StageOp> programs, ArrayRef<const plan::Action *> actions) {
  stagePrograms = programs;
  const int64_t own = StageOp(programs.front()).getIndex();
  for (const plan::Action *action : actions) {
    microbatch = action->microbatch;
    for (StageOp program : programs) {
      if (plan::isCompute(action->kind) && action->stage == own) {
        if (isOfPhase(program, plan::phaseOf(action->kind)))
          runProgram(program, own);
      } else if (plan::isReceive(action->kind) && action->stage == own) {
        if (isOfPhase(program, plan::phaseOfTransport(action->kind)))
          for (Value input : program.getInputs())
            if (auto giver = input.getDefiningOp<StageOp>();
                giver && giver.getIndex() == action->peer_stage && !readersLeft.contains({microbatch, input}))
              arrive(input, llvm::count_if(programs, [&](StageOp other) {
                       return llvm::is_contained(other.getInputs(), input);
                     }));
      } else if (plan::isSend(action->kind) ? action->stage == own : plan::isCompute(action->kind)) {
        const plan::Phase phase =
            plan::isSend(action->kind) ? plan::phaseOfTransport(action->kind) : plan::phaseOf(action->kind);
        const int64_t taker = plan::isSend(action->kind) ? action->peer_stage : action->stage;
        if (isOfPhase(program, phase))
          for (Value result : program.getResults())
            if (isTakenBy(result, taker))
              read(result);
      }
    }
    memory.activationBytes = std::max(memory.activationBytes, live);
  }
  return memory;
}

StageMemory memoryOf(ArrayRef<StageOp> programs, ArrayRef<const plan::Action *> actions,
                     const InferredValues &inferred, const ExampleShapes &shapes, int64_t threads) {
  return MemoryWalk(inferred, shapes, threads, /*microbatches=*/1).run(programs, actions);
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
