//===- LoadedProgram.cpp --------------------------------------------------===//
#include "runtime/executor/LoadedProgram.h"
#include "runtime/base/Values.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace cleave::runtime {

using llvm::ArrayRef;
using llvm::DenseSet;
using llvm::Error;
using llvm::Twine;
using plan::InstructionKind;

class ProgramLoader {
public:
  ProgramLoader(const plan::Plan &plan, const plan::Program &program, Operators &operators,
                c10::Device device)
      : plan(plan), program(program), operators(operators), device(device),
        code(new LoadedProgram(plan, program)) {}
  llvm::Expected<std::unique_ptr<LoadedProgram>> load();

private:
  void findPersistentSlots();
  Error loadBlock(uint32_t index);
  llvm::Expected<LoadedInstruction> loadInstruction(const plan::Instruction &instruction);
  Error loadKind(LoadedInstruction &loaded);
  Error loadCall(LoadedInstruction &loaded);
  Error loadList(LoadedInstruction &loaded);
  bool isNone(uint32_t slot) const;
  void nameDevice(LoadedInstruction &loaded, const c10::FunctionSchema &schema);
  void choosePrecision(LoadedInstruction &loaded, const c10::FunctionSchema &schema);
  void replaceOperand(LoadedInstruction &loaded, size_t index, uint32_t slot);
  void collectReads(const plan::Instruction &instruction, DenseSet<uint32_t> &reads) const;
  ArrayRef<Operand> operandsOf(const plan::Instruction &instruction);
  ArrayRef<uint32_t> releasesOf(const plan::Instruction &instruction, ArrayRef<Operand> operands);
  ArrayRef<Operand> markLast(ArrayRef<uint32_t> slots, llvm::function_ref<bool(uint32_t)> ends);

  const plan::Plan &plan;
  const plan::Program &program;
  Operators &operators;
  const c10::Device device;
  std::unique_ptr<LoadedProgram> code;
  /// Slots of constants, sizes, weights, and of the results of the set-up.
  llvm::BitVector persistent;
};

void ProgramLoader::findPersistentSlots() {
  persistent.resize(code->slotCount());
  persistent.set(code->deviceSlot());
  persistent.set(code->tf32Slot());
  for (const auto &constant : program.constants)
    persistent.set(constant->slot);
  for (const auto &size : program.sizes)
    persistent.set(size->slot);
  for (const auto &weight : program.weights)
    persistent.set(weight->slot);
  for (size_t i = 0; i < program.setup; ++i)
    for (uint32_t slot : program.blocks[0]->instructions[i]->results)
      persistent.set(slot);
  for (uint32_t slot = 0; slot < program.slots; ++slot)
    if (!persistent.test(slot))
      code->transient.push_back(slot);
}

/// `slots` as operands. The last mention of a slot that `ends` here moves its value out.
ArrayRef<Operand> ProgramLoader::markLast(ArrayRef<uint32_t> slots, llvm::function_ref<bool(uint32_t)> ends) {
  std::vector<Operand> operands(slots.size());
  DenseSet<uint32_t> later;
  for (size_t i = slots.size(); i-- > 0;)
    operands[i] = {slots[i], later.insert(slots[i]).second && !persistent.test(slots[i]) && ends(slots[i])};
  return ArrayRef(operands).copy(code->memory);
}

/// The slots that the blocks of `instruction` read, at any depth.
void ProgramLoader::collectReads(const plan::Instruction &instruction, DenseSet<uint32_t> &reads) const {
  for (uint32_t index : instruction.blocks) {
    const plan::Block &block = *program.blocks[index];
    reads.insert(block.results.begin(), block.results.end());
    for (const auto &inner : block.instructions) {
      reads.insert(inner->operands.begin(), inner->operands.end());
      collectReads(*inner, reads);
    }
  }
}

ArrayRef<Operand> ProgramLoader::operandsOf(const plan::Instruction &instruction) {
  DenseSet<uint32_t> readInside, released(instruction.releases.begin(), instruction.releases.end());
  collectReads(instruction, readInside);
  return markLast(instruction.operands,
                  [&](uint32_t slot) { return released.contains(slot) && !readInside.contains(slot); });
}

ArrayRef<uint32_t> ProgramLoader::releasesOf(const plan::Instruction &instruction,
                                             ArrayRef<Operand> operands) {
  DenseSet<uint32_t> taken;
  for (Operand operand : operands)
    if (operand.last)
      taken.insert(operand.slot);
  std::vector<uint32_t> releases;
  for (uint32_t slot : instruction.releases)
    if (!taken.contains(slot))
      releases.push_back(slot);
  return ArrayRef(releases).copy(code->memory);
}

bool ProgramLoader::isNone(uint32_t slot) const {
  return llvm::any_of(program.constants, [&](const auto &constant) {
    return constant->slot == slot && constant->value->kind == plan::ConstantKind::None;
  });
}

/// Without a device argument, `aten::zeros` uses the CPU, and `aten::zeros_like` its operand's device. The
/// former is given the rank's device.
void ProgramLoader::nameDevice(LoadedInstruction &loaded, const c10::FunctionSchema &schema) {
  if (llvm::any_of(schema.arguments(), [](const c10::Argument &argument) {
        return argument.type()->isSubtypeOf(*c10::TensorType::get());
      }))
    return;
  std::optional<int> argument = schema.argumentIndexWithName("device");
  if (!argument || !isNone(loaded.operands[*argument].slot))
    return;
  replaceOperand(loaded, *argument, code->deviceSlot());
}

/// A traced `aten::_convolution` has the precision that libtorch had when it was traced.
void ProgramLoader::choosePrecision(LoadedInstruction &loaded, const c10::FunctionSchema &schema) {
  std::optional<int> argument = schema.argumentIndexWithName("allow_tf32");
  if (argument && persistent.test(loaded.operands[*argument].slot))
    replaceOperand(loaded, *argument, code->tf32Slot());
}

void ProgramLoader::replaceOperand(LoadedInstruction &loaded, size_t index, uint32_t slot) {
  std::vector<Operand> operands(loaded.operands);
  operands[index].slot = slot;
  loaded.operands = ArrayRef(operands).copy(code->memory);
}

Error ProgramLoader::loadCall(LoadedInstruction &loaded) {
  const plan::Instruction &source = *loaded.source;
  auto resolved = operators.resolve(source.op);
  if (!resolved)
    return resolved.takeError();
  const c10::FunctionSchema &schema = (*resolved)->schema;
  if (!schema.is_vararg() && schema.arguments().size() != source.operands.size())
    return llvm::createStringError("found " + Twine(source.operands.size()) + " operands, expected " +
                                   Twine(schema.arguments().size()));
  if (!schema.is_varret() && schema.returns().size() != source.results.size())
    return llvm::createStringError("found " + Twine(source.results.size()) + " results, expected " +
                                   Twine(schema.returns().size()));
  for (auto [argument, slot] : llvm::zip(schema.arguments(), source.operands))
    if (argument.alias_info() && argument.alias_info()->isWrite() && persistent.test(slot))
      return llvm::createStringError("it writes to operand " + argument.name() +
                                     ", which is a constant of the plan");
  loaded.collective = collectiveOf(plan.operators[source.op]);
  loaded.operation = device.is_cpu() ? &(*resolved)->onCpu : &(*resolved)->operation;
  loaded.countsOperands = schema.is_vararg();
  if (!device.is_cpu() && !schema.is_vararg()) {
    nameDevice(loaded, schema);
    choosePrecision(loaded, schema);
  }
  return Error::success();
}

Error ProgramLoader::loadList(LoadedInstruction &loaded) {
  if (Error error = parseType(loaded.source->element).moveInto(loaded.element))
    return error;
  // A kept list of tensors would hold these beyond their last use.
  if (loaded.element->isSubtypeOf(*c10::NumberType::get()) ||
      loaded.element->kind() == c10::TypeKind::BoolType)
    loaded.kept = code->kept++;
  return Error::success();
}

/// Loads the parts that depend on the kind of instruction. Blocks have been allocated before.
Error ProgramLoader::loadKind(LoadedInstruction &loaded) {
  switch (loaded.kind) {
  case InstructionKind::Call:
  case InstructionKind::Collective:
    return loadCall(loaded);
  case InstructionKind::List:
    return loadList(loaded);
  case InstructionKind::Dict: {
    auto types = parseDictTypes(loaded.source->element);
    if (!types)
      return types.takeError();
    std::tie(loaded.element, loaded.value) = *types;
    return Error::success();
  }
  case InstructionKind::Tuple:
  case InstructionKind::Unpack:
  case InstructionKind::If:
  case InstructionKind::Loop:
  case InstructionKind::Vjp:
  case InstructionKind::StateRead:
  case InstructionKind::StateWrite:
  case InstructionKind::StateAccumulate:
  case InstructionKind::WeightWrite:
  case InstructionKind::WeightUpdate:
    return Error::success();
  case InstructionKind::StateAppend:
  case InstructionKind::StateReorder:
  case InstructionKind::CollectiveStart:
  case InstructionKind::CollectiveWait:
    break; // The validator refuses them.
  }
  return llvm::createStringError("an instruction is of a kind that this version does not know");
}

llvm::Expected<LoadedInstruction> ProgramLoader::loadInstruction(const plan::Instruction &source) {
  LoadedInstruction loaded;
  loaded.kind = source.kind;
  loaded.source = &source;
  loaded.operands = operandsOf(source);
  loaded.results = source.results;
  loaded.releases = releasesOf(source, loaded.operands);
  std::vector<const LoadedBlock *> blocks;
  for (uint32_t index : source.blocks)
    blocks.push_back(&code->blocks[index]);
  loaded.blocks = ArrayRef(blocks).copy(code->memory);
  // One more for the number of operands, which some operators take.
  code->depth = std::max({code->depth, source.operands.size() + 1, source.results.size()});
  if (Error error = loadKind(loaded))
    return llvm::createStringError(code->describe(loaded) + ": " + llvm::toString(std::move(error)));
  return loaded;
}

Error ProgramLoader::loadBlock(uint32_t index) {
  const plan::Block &source = *program.blocks[index];
  LoadedBlock &block = code->blocks[index];
  block.params = source.params;
  DenseSet<uint32_t> own(source.params.begin(), source.params.end());
  for (const auto &instruction : source.instructions) {
    auto loaded = loadInstruction(*instruction);
    if (!loaded)
      return loaded.takeError();
    bool isSetup = index == 0 && code->setupInstructions.size() < program.setup;
    (isSetup ? code->setupInstructions : block.instructions).push_back(std::move(*loaded));
    own.insert(instruction->results.begin(), instruction->results.end());
  }
  // A value from outside the block may be read again: in the next iteration, or after the block.
  block.results = markLast(source.results, [&](uint32_t slot) { return own.contains(slot); });
  code->depth = std::max(code->depth, source.results.size());
  return Error::success();
}

llvm::Expected<std::unique_ptr<LoadedProgram>> ProgramLoader::load() {
  findPersistentSlots();
  // Allocated once: instructions point to blocks.
  code->blocks.resize(program.blocks.size());
  for (uint32_t index = 0; index < program.blocks.size(); ++index)
    if (Error error = loadBlock(index))
      return error;
  code->outputSlots = markLast(program.outputs, [](uint32_t) { return true; });
  return std::move(code);
}

llvm::Expected<std::unique_ptr<LoadedProgram>> LoadedProgram::load(const plan::Plan &plan,
                                                                   const plan::Program &program,
                                                                   Operators &operators, c10::Device device) {
  return ProgramLoader(plan, program, operators, device).load();
}

const char *LoadedProgram::nameOf(const plan::Instruction &instruction) const {
  if (instruction.kind != InstructionKind::Call && instruction.kind != InstructionKind::Collective)
    return plan::wire::EnumNameInstructionKind(instruction.kind);
  const char *name = plan.operators[instruction.op].c_str();
  return llvm::StringRef(name) == "prim::RaiseException" ? "the model raises" : name;
}

std::string LoadedProgram::makerOf(size_t index) const {
  const uint32_t slot = outputSlots[index].slot;
  for (ArrayRef<LoadedInstruction> instructions : {ArrayRef(main().instructions), setup()})
    for (const LoadedInstruction &instruction : llvm::reverse(instructions))
      if (llvm::is_contained(instruction.results, slot))
        return describe(instruction);
  return "";
}

std::string LoadedProgram::describe(const LoadedInstruction &instruction) const {
  const std::string path = pathOf(*instruction.source);
  return path.empty() ? nameOf(*instruction.source) : path + ": " + nameOf(*instruction.source);
}

} // namespace cleave::runtime
