//===- ValidateProgram.cpp - Checks of the instructions of one stage ------===//
#include "codegen/plan/Batch.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/OperatorName.h"
#include "codegen/plan/ValidateParts.h"
#include "llvm/Support/SaveAndRestore.h"
#include <set>

namespace cleave::plan {

using llvm::ArrayRef;
using llvm::Error;
using llvm::Twine;

/// Limit of nested blocks, which run by recursion.
static constexpr int kMaxNesting = 32;

namespace {
/// State of a slot at one point of the program. Fixed slots hold constants, sizes and weights, and stay.
enum class SlotState : uint8_t { Unwritten, Fixed, Live, Gone };

/// Follows a program like the executor, each block once. Every slot must be written at one point, be read
/// only while it is written and not released, and be released by the block that wrote it.
class ProgramCheck {
public:
  ProgramCheck(const Plan &plan, const Program &program);
  Error run();

private:
  Error checkTables();
  Error checkTypes();
  Error writeFixed();
  Error writeSizes();
  Error checkSetup();
  bool mayTake(const ProgramInput &input) const;
  bool hasBatch(uint32_t input) const;
  Error writeInputs();
  Error checkOutputs();
  Error checkBlock(uint32_t index, int depth);
  Error checkInstruction(const Instruction &instruction, uint32_t block, int depth);
  Error checkKind(const Instruction &instruction);
  Error checkCollective(const Instruction &instruction);
  Error checkStateAccess(const Instruction &instruction);
  Error checkWeightWrite(const Instruction &instruction);
  Error checkWeightUpdate(const Instruction &instruction);
  Error checkNested(const Instruction &instruction, uint32_t block, int depth);
  Error checkNestedCounts(const Instruction &instruction);
  Error checkVjpCounts(const Instruction &instruction);

  Error write(uint32_t slot, uint32_t block, SlotState state);
  Error read(uint32_t slot, const char *what);
  Error release(uint32_t slot, uint32_t block);
  /// Hides the slots that a nested block has written from the code after it.
  void hide(const Block &block);
  /// The program and the current instruction.
  std::string where() const;
  Error refuse(const Twine &what) const { return invalid(where(), what); }
  uint64_t countWrites() const;

  const Plan &plan;
  const Program &program;
  std::vector<SlotState> states;
  /// By slot: the block that writes it.
  std::vector<uint32_t> owners;
  std::vector<bool> isBlockUsed;
  /// Slots of weights that are trainable, and the weights that the program uses.
  std::set<uint32_t> trainable, weights;
  /// Slots of sums over the step.
  std::set<uint32_t> sums;
  const Instruction *current = nullptr;
  uint32_t currentBlock = 0;
  size_t currentIndex = 0;
  /// The block of a Vjp that the current instruction is in, at any depth.
  std::optional<uint32_t> vjpBlock;
  /// Slots of constants and sizes.
  std::set<uint32_t> numbers;
};
} // namespace

ProgramCheck::ProgramCheck(const Plan &plan, const Program &program)
    : plan(plan), program(program), isBlockUsed(program.blocks.size()) {}

std::string ProgramCheck::where() const {
  std::string text = "program of '" + plan.signatures[program.signature]->name + "', stage " +
                     std::to_string(program.stage) + ", tp rank " + std::to_string(program.tp_rank);
  if (program.phase != Phase::Forward)
    text += std::string(", ") + wire::EnumNamePhase(program.phase);
  if (!current)
    return text;
  text += ": block " + std::to_string(currentBlock) + ", instruction " + std::to_string(currentIndex);
  if (current->path < plan.paths.size() && !plan.paths[current->path].empty())
    text += " (" + plan.paths[current->path] + ")";
  return text;
}

//===- Slots --------------------------------------------------------------===//

uint64_t ProgramCheck::countWrites() const {
  uint64_t count =
      program.constants.size() + program.sizes.size() + program.weights.size() + program.inputs.size();
  for (const auto &block : program.blocks) {
    count += block->params.size();
    for (const auto &instruction : block->instructions)
      count += instruction->results.size();
  }
  return count;
}

Error ProgramCheck::write(uint32_t slot, uint32_t block, SlotState state) {
  if (slot >= states.size())
    return refuse("writes slot " + Twine(slot) + ", there are " + Twine(states.size()));
  if (states[slot] != SlotState::Unwritten)
    return refuse("slot " + Twine(slot) + " is written twice");
  states[slot] = state;
  owners[slot] = block;
  return Error::success();
}

Error ProgramCheck::read(uint32_t slot, const char *what) {
  if (slot >= states.size())
    return refuse(Twine(what) + " is slot " + Twine(slot) + ", there are " + Twine(states.size()));
  if (states[slot] == SlotState::Unwritten)
    return refuse(Twine(what) + " is slot " + Twine(slot) + ", which has not been written");
  if (states[slot] == SlotState::Gone)
    return refuse(Twine(what) + " is slot " + Twine(slot) +
                  ", which has been released or is of another block");
  // Nested blocks have greater indices, and those beside are hidden.
  if (vjpBlock && owners[slot] < *vjpBlock && !numbers.count(slot))
    return refuse(Twine(what) + " is slot " + Twine(slot) + " of outside a vjp, and no constant or size");
  return Error::success();
}

Error ProgramCheck::release(uint32_t slot, uint32_t block) {
  if (Error error = read(slot, "a release"))
    return error;
  if (states[slot] == SlotState::Fixed)
    return refuse("releases slot " + Twine(slot) + ", which holds a constant, a size or a weight");
  if (owners[slot] != block)
    return refuse("releases slot " + Twine(slot) + ", which an outer block has written");
  states[slot] = SlotState::Gone;
  return Error::success();
}

void ProgramCheck::hide(const Block &block) {
  auto hideAll = [&](ArrayRef<uint32_t> slots) {
    for (uint32_t slot : slots)
      states[slot] = SlotState::Gone;
  };
  hideAll(block.params);
  for (const auto &instruction : block.instructions)
    hideAll(instruction->results);
}

//===- Tables -------------------------------------------------------------===//

Error ProgramCheck::checkTables() {
  if (hasNull(program.constants) || hasNull(program.sizes) || hasNull(program.weights) ||
      hasNull(program.types) || hasNull(program.inputs) || hasNull(program.blocks))
    return refuse("an entry of a table is missing");
  for (const auto &block : program.blocks)
    if (hasNull(block->instructions))
      return refuse("an instruction is missing");
  if (program.blocks.empty() || !program.blocks[0]->params.empty() || !program.blocks[0]->results.empty())
    return refuse("block 0 is missing, or has parameters or results, which only nested blocks have");
  if (program.slots != countWrites())
    return refuse(Twine(program.slots) + " slots, of which " + Twine(countWrites()) + " are written");
  return Error::success();
}

Error ProgramCheck::checkTypes() {
  std::vector<int64_t> traced = tracedSizes(*plan.signatures[program.signature]);
  std::set<uint32_t> typed;
  const std::string at = where();
  for (const auto &type : program.types) {
    if (type->slot >= program.slots || !typed.insert(type->slot).second)
      return refuse("slot " + Twine(type->slot) + " has two types, or is not there");
    if (Error error = checkType(at + ", slot " + Twine(type->slot), type->type.get(), traced))
      return error;
  }
  return Error::success();
}

Error ProgramCheck::writeFixed() {
  const std::string at = where();
  for (const auto &constant : program.constants) {
    if (Error error = checkConstant(at, constant->value.get()))
      return error;
    if (Error error = write(constant->slot, 0, SlotState::Fixed))
      return error;
    numbers.insert(constant->slot);
  }
  for (const auto &weight : program.weights) {
    if (weight->weight >= plan.weights.size())
      return refuse("uses weight " + Twine(weight->weight) + ", there are " + Twine(plan.weights.size()));
    if (Error error = write(weight->slot, 0, SlotState::Fixed))
      return error;
    if (plan.weights[weight->weight]->trainable)
      trainable.insert(weight->slot);
    weights.insert(weight->weight);
  }
  return Error::success();
}

Error ProgramCheck::writeSizes() {
  std::vector<int64_t> traced = tracedSizes(*plan.signatures[program.signature]);
  for (const auto &size : program.sizes) {
    // Numbers computed from sizes, such as the start of a range, may be negative.
    if (!size->value || !evaluate(*size->value, traced))
      return invalid(where(), "a size is missing, beyond int64, or of a symbol that is not there");
    if (Error error = write(size->slot, 0, SlotState::Fixed))
      return error;
    numbers.insert(size->slot);
  }
  return Error::success();
}

bool ProgramCheck::hasBatch(uint32_t input) const {
  const Signature &signature = *plan.signatures[program.signature];
  return signature.batch >= 0 && batchDimension(*signature.inputs[input]->type, signature.batch);
}

/// The table at ProgramInput in plan.fbs.
bool ProgramCheck::mayTake(const ProgramInput &input) const {
  const bool isOwn = input.stage == program.stage;
  switch (program.phase) {
  case Phase::Forward:
    return input.phase == Phase::Forward && input.stage < program.stage;
  case Phase::BackwardInput:
    return (isOwn && input.phase == Phase::Forward) ||
           (input.stage > program.stage && input.phase == Phase::BackwardInput);
  case Phase::BackwardWeight:
    return isOwn && (input.phase == Phase::Forward || input.phase == Phase::BackwardInput);
  case Phase::Update:
    return false;
  }
  return false;
}

Error ProgramCheck::writeInputs() {
  size_t requestInputs = plan.signatures[program.signature]->inputs.size();
  for (const auto &input : program.inputs) {
    if (input->source > Source::MAX)
      return refuse("an input comes from an unknown source");
    if (input->source == Source::Request && input->index >= requestInputs)
      return refuse("takes input " + Twine(input->index) + " of the request, which has " +
                    Twine(requestInputs));
    if (input->source == Source::Request && program.phase == Phase::Update && hasBatch(input->index))
      return refuse("takes input " + Twine(input->index) + " of the request, which micro-batches split");
    if (input->source == Source::Stage && !mayTake(*input))
      return refuse("takes a value from stage " + Twine(input->stage) +
                    (program.phase == Phase::Forward && input->phase == Phase::Forward
                         ? Twine(", which is no earlier one")
                         : Twine(" in a phase whose values it cannot have")));
    if (Error error = write(input->slot, 0, SlotState::Live))
      return error;
  }
  return Error::success();
}

Error ProgramCheck::checkOutputs() {
  for (uint32_t slot : program.outputs)
    if (Error error = read(slot, "an output"))
      return error;
  return Error::success();
}

//===- Instructions -------------------------------------------------------===//

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

/// Data-parallel ranks may have different numbers of micro-batches, so they meet in updates alone.
Error ProgramCheck::checkCollective(const Instruction &instruction) {
  if (instruction.op >= plan.operators.size() || !isCollective(plan.operators[instruction.op]))
    return refuse("is a collective of an operator that is not in the table, or that is none of 'spmd::'");
  if (currentBlock != 0)
    return refuse("exchanges values with other ranks in a nested block");
  if (instruction.group != GroupKind::Tensor && instruction.group != GroupKind::Data)
    return refuse("is a collective over a group that is neither Tensor nor Data");
  if (instruction.group == GroupKind::Data && program.phase != Phase::Update)
    return refuse("is a collective over a group Data, expected in an update alone");
  if ((instruction.group == GroupKind::Data ? plan.mesh->dp : plan.mesh->tp) < 2)
    return refuse("is a collective over a group of one rank");
  return Error::success();
}

Error ProgramCheck::checkStateAccess(const Instruction &instruction) {
  const bool reads = instruction.kind == InstructionKind::StateRead;
  if (instruction.op >= plan.states.size() || plan.states[instruction.op]->stage != program.stage)
    return refuse(Twine(reads ? "reads" : "writes") + " a state that is not there or not of its stage");
  const bool isSum = plan.states[instruction.op]->scope == StateScope::Step;
  // A sum is zero when a step begins; other states have an initial value.
  if (instruction.operands.size() != (reads && isSum ? 0 : 1) ||
      instruction.results.size() != (reads ? 1 : 0))
    return refuse("takes " + Twine(instruction.operands.size()) + " values and gives " +
                  Twine(instruction.results.size()) + ", which is not what its state needs");
  if ((instruction.kind == InstructionKind::StateAccumulate) != isSum && !(reads && isSum))
    return refuse("writes a sum over a step, or adds to a state that is none");
  if (isSum && reads != (program.phase == Phase::Update))
    return refuse("reads a sum over a step before the update, or adds to it there");
  if (isSum && reads)
    sums.insert(instruction.results[0]);
  if (plan.states[instruction.op]->scope == StateScope::Sequence && program.phase != Phase::Forward)
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

/// The states are made like the weight, so the session must keep a whole one of each for this rank.
Error ProgramCheck::checkWeightUpdate(const Instruction &instruction) {
  if (Error error = checkWeightWrite(instruction))
    return error;
  if (!instruction.optimizer || instruction.optimizer->optimizer > Optimizer::MAX)
    return refuse("is a step of an unknown optimizer");
  // The kernel may write to it.
  if (!sums.count(instruction.operands[0]))
    return refuse("takes a gradient that is no sum over the step");
  const OptimizerConfig &config = *instruction.optimizer;
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

/// Runs before sizes and inputs are written, which belong to a request.
Error ProgramCheck::checkSetup() {
  const Block &block = *program.blocks[0];
  if (program.setup > block.instructions.size())
    return refuse(Twine(program.setup) + " instructions set it up, of " + Twine(block.instructions.size()));
  for (currentIndex = 0; currentIndex < program.setup; ++currentIndex) {
    current = block.instructions[currentIndex].get();
    if (current->kind != InstructionKind::Call)
      return refuse("sets the program up, but is no call");
    if (llvm::any_of(current->operands, [&](uint32_t slot) { return trainable.count(slot) != 0; }))
      return refuse("sets the program up with a weight that is trainable");
    if (Error error = checkInstruction(*current, 0, 1))
      return error;
  }
  current = nullptr;
  for (SlotState &state : states)
    if (state == SlotState::Live)
      state = SlotState::Fixed;
  return Error::success();
}

Error ProgramCheck::checkBlock(uint32_t index, int depth) {
  if (depth > kMaxNesting)
    return refuse("blocks are nested deeper than " + Twine(kMaxNesting));
  const Block &block = *program.blocks[index];
  for (uint32_t slot : block.params)
    if (Error error = write(slot, index, SlotState::Live))
      return error;
  for (size_t i = index == 0 ? program.setup : 0; i < block.instructions.size(); ++i) {
    current = block.instructions[i].get();
    currentBlock = index;
    currentIndex = i;
    if (Error error = checkInstruction(*current, index, depth))
      return error;
  }
  current = nullptr;
  for (uint32_t slot : block.results)
    if (Error error = read(slot, "a result of a block"))
      return error;
  if (index == 0)
    return checkOutputs();
  hide(block);
  return Error::success();
}

Error ProgramCheck::run() {
  if (Error error = checkTables())
    return error;
  // Bounded by the table sizes that were just compared.
  states.resize(program.slots, SlotState::Unwritten);
  owners.resize(program.slots);
  if (Error error = checkTypes())
    return error;
  if (Error error = writeFixed())
    return error;
  if (Error error = checkSetup())
    return error;
  if (Error error = writeSizes())
    return error;
  if (Error error = writeInputs())
    return error;
  isBlockUsed[0] = true;
  if (Error error = checkBlock(0, 1))
    return error;
  auto unused = llvm::find(isBlockUsed, false);
  if (unused != isBlockUsed.end())
    return refuse("block " + Twine(unused - isBlockUsed.begin()) + " is never run");
  return Error::success();
}

Error checkProgram(const Plan &plan, const Program &program) { return ProgramCheck(plan, program).run(); }

} // namespace cleave::plan
