//===- ValidateInstructions.cpp - Checks of the instructions of a program -===//
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/Groups.h"
#include "codegen/plan/OperatorName.h"
#include "codegen/plan/ProgramCheck.h"
#include "codegen/plan/Schedule.h"
#include "llvm/Support/SaveAndRestore.h"
#include <cmath>

namespace cleave::plan {

using llvm::Error;
using llvm::Twine;

/// Checks counts of operands, results and blocks, and indices into the plan's tables.
Error ProgramCheck::checkKind(const Instruction &instruction) {
  using Kind = InstructionKind;
  size_t operands = instruction.operands.size(), results = instruction.results.size();
  auto needs = [&](bool condition, const char *what) { return condition ? Error::success() : refuse(what); };
  const bool usesState = instruction.kind >= Kind::StateRead && instruction.kind <= Kind::WeightUpdate;
  if (vjpBlock && (usesState || instruction.kind == Kind::Vjp))
    return refuse("uses a state, changes a weight or is a vjp in the block of a vjp");
  switch (instruction.kind) {
  case Kind::Call:
    if (instruction.op >= plan.operators.size())
      return refuse("calls an operator that is not in the table");
    return needs(!isCollective(plan.operators[instruction.op]),
                 "calls an operator that exchanges values with other ranks, expected a collective");
  case Kind::Collective:
    return checkCollective(instruction);
  case Kind::List:
    if (results != 1)
      return refuse("a list has one result");
    return checkElementType(where(), instruction.element);
  case Kind::Tuple:
    return needs(results == 1, "a tuple has one result");
  case Kind::Dict:
    if (results != 1 || operands % 2 != 0 || instruction.element.find(',') == std::string::npos)
      return refuse("a dict has one result, keys and values in pairs, and types of both");
    return checkElementType(where(), instruction.element);
  case Kind::Unpack:
    return needs(operands == 1, "unpacks one value");
  case Kind::If:
    return needs(operands == 1 && instruction.blocks.size() == 2, "an if has one operand and two blocks");
  case Kind::Loop:
    return needs(operands >= 2 && results == operands - 2 && instruction.blocks.size() == 1,
                 "a loop has trip count, condition, a result for each carried value, and one block");
  case Kind::Vjp:
    return needs(instruction.blocks.size() == 1, "a vjp has one block");
  case Kind::StateRead:
  case Kind::StateWrite:
  case Kind::StateAccumulate:
    return checkStateAccess(instruction);
  case Kind::WeightWrite:
    return checkWeightWrite(instruction);
  case Kind::WeightUpdate:
    return checkWeightUpdate(instruction);
  case Kind::StateAppend:
  case Kind::StateReorder:
  case Kind::CollectiveStart:
  case Kind::CollectiveWait:
    return refuse(Twine("is ") + wire::EnumNameInstructionKind(instruction.kind) +
                  ", which this version does not run");
  }
  return refuse("is of an unknown kind");
}

/// Data-parallel ranks may have different numbers of micro-batches, so they meet once a request alone.
Error ProgramCheck::checkCollective(const Instruction &instruction) {
  if (instruction.op >= plan.operators.size() || !isCollective(plan.operators[instruction.op]))
    return refuse("is a collective of an operator that is not in the table, or that is none of 'spmd::'");
  if (currentBlock != 0)
    return refuse("exchanges values with other ranks in a nested block");
  if (instruction.group != GroupKind::Tensor && instruction.group != GroupKind::Data)
    return refuse("is a collective over a group that is neither Tensor nor Data");
  if (instruction.group == GroupKind::Data && !isOnce(program.phase))
    return refuse("is a collective over a group Data, expected in an update alone");
  if ((instruction.group == GroupKind::Data ? plan.mesh->dp : plan.mesh->tp) < 2)
    return refuse("is a collective over a group of one rank");
  return Error::success();
}

Error ProgramCheck::checkStateAccess(const Instruction &instruction) {
  const bool reads = instruction.kind == InstructionKind::StateRead;
  const State *state = instruction.op < plan.states.size() ? plan.states[instruction.op].get() : nullptr;
  const bool isSum = state && state->scope == StateScope::Step;
  if (!state || (state->stage != program.stage &&
                 !(isSum && state->stage < plan.stages.size() &&
                   plan.stages[state->stage]->ranks == plan.stages[program.stage]->ranks)))
    return refuse(Twine(reads ? "reads" : "writes") + " a state that is not there or not of its stage");
  // A sum is zero when a step begins; other states have an initial value.
  if (instruction.operands.size() != (reads && isSum ? 0 : 1) ||
      instruction.results.size() != (reads ? 1 : 0))
    return refuse("takes " + Twine(instruction.operands.size()) + " values and gives " +
                  Twine(instruction.results.size()) + ", which is not what its state needs");
  if ((instruction.kind == InstructionKind::StateAccumulate) != isSum && !(reads && isSum))
    return refuse("writes a sum over a step, or adds to a state that is none");
  if (isSum && (reads ? !isOnce(program.phase) : program.phase == Phase::Update))
    return refuse("reads a sum over a step before it is whole, or adds to it in the update");
  if (isSum && reads)
    sums.insert(instruction.results[0]);
  if (state->scope == StateScope::Sequence && program.phase != Phase::Forward)
    return refuse("reads or writes a state with rows for the batch, expected in a forward program alone");
  return Error::success();
}

Error ProgramCheck::checkWeightWrite(const Instruction &instruction) {
  if (program.phase != Phase::Update)
    return refuse("writes a weight, expected in an update alone");
  const bool isStep = instruction.kind == InstructionKind::WeightUpdate;
  if (instruction.operands.size() != (isStep ? 5 : 1) || !instruction.results.empty() ||
      !weights.count(instruction.op))
    return refuse("writes a weight that the program does not have");
  if (!plan.weights[instruction.op]->trainable)
    return refuse("writes weight '" + plan.weights[instruction.op]->name + "', which is not trainable");
  return Error::success();
}

static bool areEqual(llvm::ArrayRef<std::unique_ptr<DimRanges>> one,
                     llvm::ArrayRef<std::unique_ptr<DimRanges>> other) {
  return one.size() == other.size() && llvm::all_of(llvm::zip(one, other), [](auto pair) {
           auto &[a, b] = pair;
           return a->dim == b->dim && a->offsets == b->offsets && a->sizes == b->sizes;
         });
}

/// True if the rank holds of the state what it holds of the weight.
bool ProgramCheck::isShardedAs(const State &state, const Weight &weight) const {
  llvm::ArrayRef<std::unique_ptr<DimRanges>> own;
  for (const auto &shard : state.shards)
    if (shard->tp_rank == program.tp_rank)
      own = shard->ranges;
  return llvm::all_of(weight.shards, [&](const auto &shard) {
    return tpRankOf(plan, shard->rank) != program.tp_rank || areEqual(shard->ranges, own);
  });
}

/// The states are made like the rank's shard of the weight.
Error ProgramCheck::checkWeightUpdate(const Instruction &instruction) {
  if (Error error = checkWeightWrite(instruction))
    return error;
  if (!instruction.optimizer || instruction.optimizer->optimizer > Optimizer::MAX)
    return refuse("is a step of an unknown optimizer");
  // The kernel may write to it.
  if (!sums.count(instruction.operands[0]))
    return refuse("takes a gradient that is no sum over the step");
  const OptimizerConfig &config = *instruction.optimizer;
  for (double number : {config.weight_decay, config.momentum, config.epsilon})
    if (!std::isfinite(number) || number < 0)
      return refuse("is a step of an optimizer with an option that is no finite number of 0 or more");
  for (double beta : {config.beta1, config.beta2})
    if (!(beta >= 0 && beta < 1))
      return refuse("is a step of an optimizer with a beta that is not from 0 to below 1");
  const size_t wanted = config.optimizer != Optimizer::Sgd ? 2 : config.momentum != 0 ? 1 : 0;
  if (config.states.size() != wanted)
    return refuse("is a step of an optimizer with " + Twine(config.states.size()) + " states, expected " +
                  Twine(wanted));
  const Weight &weight = *plan.weights[instruction.op];
  for (uint32_t index : config.states) {
    if (index >= plan.states.size() || plan.states[index]->stage != program.stage ||
        plan.states[index]->scope != StateScope::Session)
      return refuse("keeps what is no state of the session and of its stage");
    const TensorType &type = *plan.states[index]->type;
    if (!type.ranked || type.dtype != weight.dtype || knownSizes(type) != weight.shape)
      return refuse("keeps state '" + plan.states[index]->name + "', which is not of the type of its weight");
    if (!isShardedAs(*plan.states[index], weight))
      return refuse("keeps state '" + plan.states[index]->name + "', which is not sharded as its weight");
  }
  return Error::success();
}

/// A gradient for each result of the block, its parameters; gradients of some of these, its results.
Error ProgramCheck::checkVjpCounts(const Instruction &instruction) {
  const Block &block = *program.blocks[instruction.blocks[0]];
  const size_t values = block.results.size(), params = block.params.size();
  if (values == 0 || instruction.operands.size() != values + params || instruction.results.size() < values ||
      instruction.results.size() > values + params)
    return refuse("takes " + Twine(instruction.operands.size()) + " values and gives " +
                  Twine(instruction.results.size()) + ", and its block takes " + Twine(params) +
                  " and gives " + Twine(values) + ", which does not fit");
  return Error::success();
}

/// The parameters and results of a nested block must fit the instruction that runs it.
Error ProgramCheck::checkNestedCounts(const Instruction &instruction) {
  if (instruction.kind == InstructionKind::Vjp)
    return checkVjpCounts(instruction);
  bool isLoop = instruction.kind == InstructionKind::Loop;
  size_t carried = instruction.results.size();
  for (uint32_t index : instruction.blocks) {
    const Block &block = *program.blocks[index];
    // A loop's block takes the iteration first and returns the condition first.
    if (block.params.size() != (isLoop ? carried + 1 : 0) ||
        block.results.size() != (isLoop ? carried + 1 : carried))
      return refuse("block " + Twine(index) + " takes " + Twine(block.params.size()) + " values and gives " +
                    Twine(block.results.size()) + ", which does not fit the instruction that runs it");
  }
  return Error::success();
}

Error ProgramCheck::checkNested(const Instruction &instruction, uint32_t block, int depth) {
  const bool runsBlocks = llvm::is_contained(
      {InstructionKind::If, InstructionKind::Loop, InstructionKind::Vjp}, instruction.kind);
  if (!runsBlocks)
    return instruction.blocks.empty() ? Error::success() : refuse("has blocks, but is no if, loop or vjp");
  for (uint32_t index : instruction.blocks) {
    // Since indices increase, blocks cannot form a cycle.
    if (index <= block || index >= program.blocks.size() || isBlockUsed[index])
      return refuse("runs block " + Twine(index) +
                    ", which is not there, not behind its own, or run elsewhere");
    isBlockUsed[index] = true;
  }
  if (Error error = checkNestedCounts(instruction))
    return error;
  const Instruction *outer = current;
  size_t outerIndex = currentIndex;
  llvm::SaveAndRestore inVjp(vjpBlock, instruction.kind == InstructionKind::Vjp
                                           ? std::optional<uint32_t>(instruction.blocks[0])
                                           : vjpBlock);
  for (uint32_t index : instruction.blocks) {
    if (Error error = checkBlock(index, depth + 1))
      return error;
    current = outer;
    currentBlock = block;
    currentIndex = outerIndex;
  }
  return Error::success();
}

Error ProgramCheck::checkInstruction(const Instruction &instruction, uint32_t block, int depth) {
  if (instruction.path >= plan.paths.size())
    return refuse("its module path is not in the table");
  if (Error error = checkKind(instruction))
    return error;
  for (uint32_t slot : instruction.operands)
    if (Error error = read(slot, "an operand"))
      return error;
  if (Error error = checkNested(instruction, block, depth))
    return error;
  for (uint32_t slot : instruction.results)
    if (Error error = write(slot, block, SlotState::Live))
      return error;
  for (uint32_t slot : instruction.releases)
    if (Error error = release(slot, block))
      return error;
  return Error::success();
}

} // namespace cleave::plan
