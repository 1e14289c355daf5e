//===- ValidateProgram.cpp - Checks of the program of one stage -----------===//
#include "codegen/plan/Batch.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/ProgramCheck.h"
#include "codegen/plan/Schedule.h"

namespace cleave::plan {

using llvm::ArrayRef;
using llvm::Error;
using llvm::Twine;

/// Limit of nested blocks, which run by recursion.
static constexpr int kMaxNesting = 32;

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
  case Phase::Norm:
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
    if (input->source == Source::Request && isOnce(program.phase) && hasBatch(input->index))
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

//===- The program --------------------------------------------------------===//

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
