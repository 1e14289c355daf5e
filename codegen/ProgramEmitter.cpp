//===- ProgramEmitter.cpp - A stage as an instruction list ----------------===//
#include "codegen/ProgramEmitter.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/OperatorName.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace cleave {

using plan::InstructionKind;

uint32_t ProgramEmitter::define(Value value) {
  uint32_t slot = program->slots++;
  slots[value] = slot;
  if (isTensorLike(value.getType()) && isa<RankedTensorType>(value.getType())) {
    auto type = std::make_unique<plan::SlotType>();
    type->slot = slot;
    type->type = tensorTypeOf(value.getType(), symbols);
    program->types.push_back(std::move(type));
  }
  return slot;
}

uint32_t ProgramEmitter::slot(Value value) const {
  auto found = slots.find(value);
  assert(found != slots.end() && "a value is used before it is defined");
  return found == slots.end() ? UINT32_MAX : found->second;
}

/// Gives the body of a vjp copies of what it uses from outside, but for constants and sizes, which it may
/// use: CSE has merged equal operations inside and outside.
static void copyIntoBody(VjpOp vjp) {
  Block &body = vjp->getRegion(0).front();
  auto isOutside = [&](Value value) { return !vjp->isAncestor(value.getParentBlock()->getParentOp()); };
  IRMapping copies;
  OpBuilder b = OpBuilder::atBlockBegin(&body);
  std::function<void(Value)> copy = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !isOutside(value) || isa<ConstantOp, SizeOp, ParamOp>(op) || copies.contains(value))
      return;
    llvm::for_each(op->getOperands(), copy);
    b.clone(*op, copies);
  };
  vjp->walk([&](Operation *inner) {
    if (inner == vjp)
      return;
    for (OpOperand &operand : inner->getOpOperands())
      if (isOutside(operand.get())) {
        copy(operand.get());
        operand.set(copies.lookupOrDefault(operand.get()));
      }
  });
}

FailureOr<std::unique_ptr<plan::Program>> ProgramEmitter::emit(StageOp op, uint32_t tpRank) {
  const std::vector<Observed> observed = takeObserves(op);
  op.walk([](VjpOp vjp) { copyIntoBody(vjp); });
  program = std::make_unique<plan::Program>();
  stage = program->stage = op.getIndex();
  program->phase = planPhaseOf(op.getPhase());
  slots.clear();
  Block &body = op.getBody().front();
  for (auto [argument, operand] : llvm::zip(body.getArguments(), op.getInputs())) {
    auto input = std::make_unique<plan::ProgramInput>();
    input->slot = define(argument);
    if (auto result = dyn_cast<OpResult>(operand)) {
      input->source = plan::Source::Stage;
      input->stage = cast<StageOp>(result.getOwner()).getIndex();
      input->phase = planPhaseOf(cast<StageOp>(result.getOwner()).getPhase());
      input->index = result.getResultNumber();
    } else {
      input->source = plan::Source::Request;
      input->index = cast<BlockArgument>(operand).getArgNumber();
    }
    program->inputs.push_back(std::move(input));
  }
  program->blocks.push_back(std::make_unique<plan::Block>());
  if (failed(emitSetup(body)) || failed(emitBlock(body, 0)))
    return failure();
  for (Value output : body.getTerminator()->getOperands())
    program->outputs.push_back(slot(output));
  llvm::SetVector<uint32_t> kept(program->outputs.begin(), program->outputs.end());
  keepCaptured(observed, kept);
  const auto lifetimes = lifetimesIn(*program->blocks[0]);
  for (const Observed &one : observed)
    addCapturePoint(one, tpRank, lifetimes, kept);
  for (uint32_t i = 0; i < program->blocks.size(); ++i)
    addReleases(*program->blocks[i], i == 0 ? kept
                                            : llvm::SetVector<uint32_t>(program->blocks[i]->results.begin(),
                                                                        program->blocks[i]->results.end()));
  return std::move(program);
}

LogicalResult ProgramEmitter::emitSetup(Block &body) {
  for (Operation &op : body.without_terminator()) {
    if (!prepacksWeights(&op))
      continue;
    for (Value operand : op.getOperands())
      if (!slots.contains(operand))
        emitFixed(operand.getDefiningOp());
    if (failed(emitCall(cast<OperatorOp>(op), *program->blocks[0])))
      return failure();
  }
  program->setup = program->blocks[0]->instructions.size();
  return success();
}

LogicalResult ProgramEmitter::emitBlock(Block &block, uint32_t index) {
  auto isEmitted = [&](Operation &op) { return op.getNumResults() > 0 && slots.contains(op.getResult(0)); };
  for (Operation &op : block) {
    if (index == 0)
      instructionsBefore[&op] = program->blocks[0]->instructions.size();
    // An index, since the vector of blocks grows while nested ones are emitted.
    if (!op.hasTrait<OpTrait::IsTerminator>() && !isEmitted(op) &&
        failed(emitOp(&op, *program->blocks[index], index)))
      return failure();
  }
  return success();
}

std::unique_ptr<plan::Instruction> ProgramEmitter::instructionFor(Operation *op) {
  auto instruction = std::make_unique<plan::Instruction>();
  for (Value operand : op->getOperands())
    instruction->operands.push_back(slot(operand));
  instruction->path = tables.paths.add(modulePath(op));
  return instruction;
}

bool ProgramEmitter::emitFixed(Operation *op) {
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto entry = std::make_unique<plan::SlotConstant>();
    entry->value = constantOf(constant.getValue(), constant.getType());
    entry->slot = define(constant);
    program->constants.push_back(std::move(entry));
  } else if (auto size = dyn_cast<SizeOp>(op)) {
    auto entry = std::make_unique<plan::SlotSize>();
    entry->value = dimOf(*SymbolicDim::parse(size.getExpression()), symbols);
    entry->slot = define(size);
    program->sizes.push_back(std::move(entry));
  } else if (auto param = dyn_cast<ParamOp>(op)) {
    auto entry = std::make_unique<plan::SlotWeight>();
    entry->weight = tables.weights.insert({param.getName(), param}).first - tables.weights.begin();
    entry->slot = define(param);
    program->weights.push_back(std::move(entry));
  } else {
    return false;
  }
  return true;
}

LogicalResult ProgramEmitter::emitOp(Operation *op, plan::Block &block, uint32_t index) {
  if (emitFixed(op))
    return success();
  if (auto call = dyn_cast<OperatorOp>(op))
    return emitCall(call, block);
  if (isa<IfOp, LoopOp, VjpOp>(op))
    return emitNested(op, block, index);
  auto instruction = instructionFor(op);
  if (!setKind(*instruction, op) && !setTrainingKind(*instruction, op))
    return op->emitOpError("has no instruction in a plan");
  for (Value result : op->getResults())
    instruction->results.push_back(define(result));
  block.instructions.push_back(std::move(instruction));
  return success();
}

bool ProgramEmitter::setKind(plan::Instruction &instruction, Operation *op) {
  if (auto list = dyn_cast<ListOp>(op)) {
    instruction.kind = InstructionKind::List;
    instruction.element = schemaTypeName(cast<ListType>(list.getType()).getElement());
  } else if (auto dict = dyn_cast<DictOp>(op)) {
    instruction.kind = InstructionKind::Dict;
    auto type = cast<DictType>(dict.getType());
    instruction.element = schemaTypeName(type.getKey()) + "," + schemaTypeName(type.getValue());
  } else if (isa<TupleOp>(op)) {
    instruction.kind = InstructionKind::Tuple;
  } else if (isa<UnpackOp>(op)) {
    instruction.kind = InstructionKind::Unpack;
  } else if (auto state = dyn_cast<ReadStateOp>(op)) {
    instruction.kind = InstructionKind::StateRead;
    instruction.op = stateOf(state);
  } else if (auto update = dyn_cast<WriteStateOp>(op)) {
    instruction.kind = InstructionKind::StateWrite;
    instruction.op = stateOf(update.getState());
  } else {
    return false;
  }
  return true;
}

bool ProgramEmitter::setTrainingKind(plan::Instruction &instruction, Operation *op) {
  if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
    instruction.kind = InstructionKind::StateAccumulate;
    instruction.op = sumOf(accumulate.getName(), accumulate.getValue().getType(), accumulate.getShard());
  } else if (auto sum = dyn_cast<ReadSumOp>(op)) {
    instruction.kind = InstructionKind::StateRead;
    instruction.op = sumOf(sum.getName(), sum.getType(), sum.getShard());
  } else if (auto assign = dyn_cast<WriteWeightOp>(op)) {
    auto weight = assign.getWeight().getDefiningOp<ParamOp>();
    instruction.kind = InstructionKind::WeightWrite;
    instruction.op = tables.weights.find(weight.getName()) - tables.weights.begin();
    instruction.operands = {slot(assign.getValue())};
    tables.trainable.insert(weight.getName().str());
  } else if (auto update = dyn_cast<UpdateWeightOp>(op)) {
    setUpdate(instruction, update);
  } else {
    return false;
  }
  return true;
}

/// Makes the whole's of a state that has the type of a rank's part.
static void setShards(plan::State &state, std::optional<ShardingAttr> shard) {
  if (!shard)
    return;
  *state.type->dims[shard->getDim()] = plan::constantDim(shard->getSize());
  for (uint32_t rank = 0; rank < shard->getRanks().size(); ++rank) {
    state.shards.push_back(std::make_unique<plan::StateShard>());
    state.shards.back()->tp_rank = rank;
    state.shards.back()->ranges.push_back(rangesOf(*shard, rank));
  }
}

void ProgramEmitter::setUpdate(plan::Instruction &instruction, UpdateWeightOp op) {
  auto weight = op.getWeight().getDefiningOp<ParamOp>();
  instruction.kind = InstructionKind::WeightUpdate;
  instruction.op = tables.weights.find(weight.getName()) - tables.weights.begin();
  instruction.operands.erase(instruction.operands.begin());
  tables.trainable.insert(weight.getName().str());
  auto config = std::make_unique<plan::OptimizerConfig>();
  config->optimizer = static_cast<plan::Optimizer>(op.getOptimizer());
  config->weight_decay = op.getWeightDecay().convertToDouble();
  config->momentum = op.getMomentum().convertToDouble();
  config->beta1 = op.getBeta1().convertToDouble();
  config->beta2 = op.getBeta2().convertToDouble();
  config->epsilon = op.getEpsilon().convertToDouble();
  config->nesterov = op.getNesterov();
  for (StringRef name : op.getStates().getAsValueRange<StringAttr>()) {
    auto [entry, isNew] = tables.states.try_emplace(name.str());
    if (isNew) {
      entry->second = std::make_unique<plan::State>();
      entry->second->name = name.str();
      entry->second->type = tensorTypeOf(weight.getType(), symbols);
      entry->second->stage = stage;
      setShards(*entry->second, weight.getShard());
    }
    config->states.push_back(entry - tables.states.begin());
  }
  instruction.optimizer = std::move(config);
}

uint32_t ProgramEmitter::stateOf(ReadStateOp state) {
  auto [entry, isNew] = tables.states.try_emplace(state.getName().str());
  if (isNew) {
    entry->second = std::make_unique<plan::State>();
    entry->second->name = state.getName().str();
    entry->second->type = tensorTypeOf(state.getType(), symbols);
    entry->second->stage = stage;
    if (auto dim = state.getBatchDim()) {
      entry->second->scope = plan::StateScope::Sequence;
      entry->second->batch_dim = int32_t(*dim);
      // Each sequence has as many rows as its first request.
      *entry->second->type->dims[*dim] = plan::unknownDim();
    }
  }
  return entry - tables.states.begin();
}

/// Sums of narrow floats are float32.
static plan::DType dtypeOfSum(plan::DType dtype) {
  const bool isNarrow = dtype == plan::DType::Half || dtype == plan::DType::BFloat16;
  return isNarrow ? plan::DType::Float : dtype;
}

uint32_t ProgramEmitter::sumOf(StringRef name, Type part, std::optional<ShardingAttr> shard) {
  const std::string own = tables.sums.stateOf(name.str(), stage);
  auto [entry, isNew] = tables.states.try_emplace(own);
  if (isNew) {
    auto state = std::make_unique<plan::State>();
    state->name = own;
    state->scope = plan::StateScope::Step;
    state->stage = tables.sums.ownerOf(name.str(), stage);
    state->type = tensorTypeOf(part, symbols);
    state->type->dtype = dtypeOfSum(state->type->dtype);
    state->type->strides.clear();
    setShards(*state, shard);
    entry->second = std::move(state);
  }
  return entry - tables.states.begin();
}

LogicalResult ProgramEmitter::emitCall(OperatorOp op, plan::Block &block) {
  auto instruction = instructionFor(op);
  const std::string &name = op.getSchema().torchName;
  instruction->op = tables.operators.add(name);
  if (plan::isCollective(name))
    instruction->kind = InstructionKind::Collective;
  for (Value result : op->getResults())
    instruction->results.push_back(define(result));
  block.instructions.push_back(std::move(instruction));
  return success();
}

LogicalResult ProgramEmitter::emitNested(Operation *op, plan::Block &block, uint32_t index) {
  auto instruction = instructionFor(op);
  instruction->kind = isa<IfOp>(op)    ? InstructionKind::If
                      : isa<VjpOp>(op) ? InstructionKind::Vjp
                                       : InstructionKind::Loop;
  for (Region &region : op->getRegions()) {
    uint32_t nested = program->blocks.size();
    instruction->blocks.push_back(nested);
    program->blocks.push_back(std::make_unique<plan::Block>());
    for (BlockArgument argument : region.getArguments())
      program->blocks[nested]->params.push_back(define(argument));
    if (failed(emitBlock(region.front(), nested)))
      return failure();
    for (Value result : region.front().getTerminator()->getOperands())
      program->blocks[nested]->results.push_back(slot(result));
  }
  for (Value result : op->getResults())
    instruction->results.push_back(define(result));
  program->blocks[index]->instructions.push_back(std::move(instruction));
  return success();
}

void ProgramEmitter::collectReads(const plan::Instruction &instruction,
                                  llvm::SetVector<uint32_t> &reads) const {
  reads.insert(instruction.operands.begin(), instruction.operands.end());
  for (uint32_t nested : instruction.blocks) {
    for (auto &inner : program->blocks[nested]->instructions)
      collectReads(*inner, reads);
    reads.insert(program->blocks[nested]->results.begin(), program->blocks[nested]->results.end());
  }
}

/// Prepacked weights stay.
llvm::MapVector<uint32_t, ProgramEmitter::Lifetime>
ProgramEmitter::lifetimesIn(const plan::Block &block) const {
  const bool isProgram = &block == program->blocks[0].get();
  llvm::MapVector<uint32_t, Lifetime> lifetimes;
  if (isProgram)
    for (auto &input : program->inputs)
      lifetimes.insert({input->slot, {0, 0}});
  for (uint32_t param : block.params)
    lifetimes.insert({param, {0, 0}});
  for (auto [i, instruction] : llvm::enumerate(block.instructions)) {
    llvm::SetVector<uint32_t> reads;
    collectReads(*instruction, reads);
    for (uint32_t slot : reads)
      if (auto own = lifetimes.find(slot); own != lifetimes.end())
        own->second.lastRead = i;
    for (uint32_t slot : instruction->results)
      lifetimes.insert({slot, {i, i}});
  }
  if (isProgram)
    for (size_t i = 0; i < program->setup; ++i)
      for (uint32_t slot : block.instructions[i]->results)
        if (lifetimes[slot].lastRead >= program->setup)
          lifetimes.erase(slot);
  return lifetimes;
}

/// Releases each slot that the block writes after the last instruction that reads it, or after its producer
/// if none does.
void ProgramEmitter::addReleases(plan::Block &block, const llvm::SetVector<uint32_t> &kept) {
  if (!block.instructions.empty())
    for (auto &[slot, lifetime] : lifetimesIn(block))
      if (!kept.contains(slot))
        block.instructions[lifetime.lastRead]->releases.push_back(slot);
}

void ProgramEmitter::keepCaptured(ArrayRef<Observed> observed, llvm::SetVector<uint32_t> &kept) const {
  for (const Observed &one : observed)
    if (auto found = slots.find(one.value); one.isDeclared && found != slots.end() && one.value.use_empty())
      kept.insert(found->second);
}

/// The value is in its slot once it is written, until its last reader has run.
void ProgramEmitter::addCapturePoint(const Observed &observed, uint32_t tpRank,
                                     const llvm::MapVector<uint32_t, Lifetime> &lifetimes,
                                     const llvm::SetVector<uint32_t> &kept) {
  auto found = slots.find(observed.value);
  auto before = instructionsBefore.find(observed.next);
  if (found == slots.end() || before == instructionsBefore.end())
    return;
  const uint32_t slot = found->second;
  Observed point = observed;
  uint32_t after = std::max(before->second, program->setup);
  if (auto own = lifetimes.find(slot); own != lifetimes.end() && !kept.contains(slot)) {
    if (own->second.lastRead < after) {
      after = own->second.written + 1;
      point.isWritable = false;
    }
    if (own->second.lastRead < after)
      return;
  }
  captures.push_back(capturePointOf(point, stage, slot, after, tpRank, symbols));
}

} // namespace cleave
