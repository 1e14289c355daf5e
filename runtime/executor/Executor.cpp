//===- Executor.cpp -------------------------------------------------------===//
#include "runtime/executor/Executor.h"
#include "codegen/plan/DimExpr.h"
#include "runtime/base/Exceptions.h"
#include "runtime/base/Values.h"
#include "runtime/comm/Collectives.h"
#include "runtime/executor/Activity.h"
#include "runtime/executor/OptimizerStep.h"
#include "runtime/executor/SetupWatch.h"
#include "runtime/executor/Vjp.h"
#include <ATen/Context.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>

namespace cleave::runtime {

using c10::IValue;
using llvm::ArrayRef;
using plan::InstructionKind;

namespace {
/// A profiler range around the call of an instruction.
class Range {
public:
  Range(DevicePlugin *plugin, const LoadedProgram &code, const LoadedInstruction &instruction)
      : plugin(plugin) {
    if (plugin)
      plugin->beginRange(code.describe(instruction).c_str());
  }
  ~Range() {
    if (plugin)
      plugin->endRange();
  }
  Range(const Range &) = delete;
  Range &operator=(const Range &) = delete;

private:
  DevicePlugin *const plugin;
};
} // namespace

Executor::Executor(const plan::Program &program, std::unique_ptr<LoadedProgram> loaded,
                   const WeightStore &weights, c10::Device device, uint32_t rank)
    : program(program), code(std::move(loaded)), weights(weights), device(device), rank(rank),
      slots(code->slotCount()), lists(code->keptLists()) {
  stack.reserve(code->stackDepth());
}

llvm::Error Executor::fillSlots() {
  for (const auto &constant : program.constants) {
    c10::IValue &slot = slots[constant->slot];
    if (llvm::Error error = toValue(*constant->value).moveInto(slot))
      return error;
    if (slot.isDevice() && !device.is_cpu())
      slot = device;
  }
  slots[code->deviceSlot()] = device;
  slots[code->tf32Slot()] = at::globalContext().allowTF32CuDNN(at::Float32Op::CONV);
  for (const auto &weight : program.weights)
    slots[weight->slot] = weights.at(weight->weight);
  return llvm::Error::success();
}

llvm::Error Executor::setUp() {
  ActivityScope activity(rank, *this);
  SetupWatch::Scope watched(rank, *this);
  auto done = catching([&]() -> llvm::Error {
    for (const LoadedInstruction &instruction : code->setup()) {
      enter(&instruction);
      execute(instruction);
      for (uint32_t slot : instruction.releases)
        slots[slot] = IValue();
    }
    return llvm::Error::success();
  });
  if (done)
    return llvm::createStringError(position() + ": " + llvm::toString(std::move(done)));
  enter(nullptr);
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<Executor>> Executor::load(const plan::Plan &plan, const plan::Program &program,
                                                         const WeightStore &weights, Operators &operators,
                                                         c10::Device device, bool checkTypes,
                                                         DevicePlugin *profiler, uint32_t rank) {
  auto code = LoadedProgram::load(plan, program, operators, device);
  if (!code)
    return code.takeError();
  std::unique_ptr<Executor> executor(new Executor(program, std::move(*code), weights, device, rank));
  if (llvm::Error error = executor->fillSlots())
    return error;
  if (llvm::Error error = executor->setUp())
    return error;
  if (checkTypes)
    executor->types.emplace(program, *plan.signatures[program.signature]);
  executor->profiler = profiler;
  return executor;
}

void Executor::setInput(size_t index, IValue value) {
  slots[program.inputs[index]->slot] = movedTo(device, std::move(value));
}

void Executor::run(const ExecutionContext &given, std::vector<IValue> &outputs) {
  ActivityScope activity(rank, *this);
  context = &given;
  enter(nullptr);
  bindSizes();
  if (types)
    checkInputTypes();
  outputs.clear();
  if (!context->taps)
    runBlock(code->main());
  else if (!runWithTaps())
    return clear();
  for (Operand operand : code->outputs())
    outputs.push_back(take(operand));
  clear();
}

std::string Executor::position() const {
  const LoadedInstruction *instruction = current.load(std::memory_order_relaxed);
  return instruction ? code->describe(*instruction) : "";
}

void Executor::clear() {
  enter(nullptr);
  stack.clear();
  for (uint32_t slot : code->requestSlots())
    slots[slot] = IValue();
  containers.sweep(slots);
}

void Executor::bindSizes() {
  for (const auto &size : program.sizes) {
    std::optional<int64_t> value = plan::evaluate(*size->value, context->symbols);
    TORCH_CHECK(
        value, "a size that the plan computes from the sizes of the inputs is out of range for these inputs");
    slots[size->slot] = *value;
  }
}

void Executor::step(const LoadedInstruction &instruction) {
  TORCH_CHECK(!context->cancelled.load(std::memory_order_relaxed), "the request was cancelled");
  enter(&instruction);
  {
    Range range(profiler, *code, instruction);
    execute(instruction);
  }
  if (types)
    checkTypes(instruction.results);
  if (context->refusesNan)
    checkNan(instruction);
  for (uint32_t slot : instruction.releases)
    slots[slot] = IValue();
  containers.sweep(slots);
}

void Executor::runBlock(const LoadedBlock &block) {
  for (const LoadedInstruction &instruction : block.instructions)
    step(instruction);
}

bool Executor::runWithTaps() {
  ArrayRef<Tap> left = context->taps->taps;
  ArrayRef<LoadedInstruction> instructions = code->main().instructions;
  // Instructions of the set-up count, too.
  for (size_t done = program.setup;; ++done) {
    for (; !left.empty() && left.front().after <= done; left = left.drop_front())
      left.front().visit(slots[left.front().slot]);
    if (done == context->taps->stopAfter)
      return false;
    if (instructions.empty())
      return true;
    step(instructions.front());
    instructions = instructions.drop_front();
  }
}

void Executor::execute(const LoadedInstruction &instruction) {
  switch (instruction.kind) {
  case InstructionKind::Call:
    return call(instruction);
  case InstructionKind::List:
    return makeList(instruction);
  case InstructionKind::Tuple:
    return makeTuple(instruction);
  case InstructionKind::Dict:
    return makeDict(instruction);
  case InstructionKind::Unpack:
    return unpack(instruction);
  case InstructionKind::If:
    return choose(instruction);
  case InstructionKind::Loop:
    return loop(instruction);
  case InstructionKind::Vjp:
    return vjp(instruction);
  case InstructionKind::StateRead:
    return readState(instruction);
  case InstructionKind::StateWrite:
    return writeState(instruction);
  case InstructionKind::Collective:
    return callCollective(instruction);
  case InstructionKind::StateAccumulate:
    return context->states->accumulate(instruction.source->op, context->part.position,
                                       take(instruction.operands[0]), device);
  case InstructionKind::WeightWrite:
    return writeWeight(instruction);
  case InstructionKind::WeightUpdate:
    return updateWeight(instruction);
  default:
    break;
  }
  TORCH_INTERNAL_ASSERT(false, "LoadedProgram::load refuses the other kinds");
}

/// The value of an operand, moved out of its slot when nothing reads it later.
IValue Executor::take(Operand operand) {
  return operand.last ? std::move(slots[operand.slot]) : slots[operand.slot];
}

void Executor::store(uint32_t slot, IValue value) {
  slots[slot] = std::move(value);
  containers.count(slot, slots[slot]);
}

void Executor::push(ArrayRef<Operand> operands) {
  for (Operand operand : operands)
    stack.push_back(take(operand));
}

void Executor::popInto(ArrayRef<uint32_t> results) {
  TORCH_CHECK(stack.size() == results.size(), "gave ", stack.size(), " values, the plan expects ",
              results.size());
  for (size_t i = 0; i < results.size(); ++i)
    store(results[i], std::move(stack[i]));
  stack.clear();
}

void Executor::call(const LoadedInstruction &instruction) {
  push(instruction.operands);
  if (instruction.countsOperands)
    stack.emplace_back(int64_t(instruction.operands.size()));
  (*instruction.operation)(stack);
  popInto(instruction.results);
}

void Executor::callCollective(const LoadedInstruction &instruction) {
  push(instruction.operands);
  runtime::callCollective(context->groups[size_t(instruction.source->group)], *instruction.collective, stack);
  popInto(instruction.results);
}

/// Reserves memory for the operands.
c10::impl::GenericList Executor::emptyList(const LoadedInstruction &instruction) {
  if (instruction.kept && lists[*instruction.kept].isList() && lists[*instruction.kept].use_count() == 1) {
    // Another thread may have been the last to release it, and reference counts are read relaxed.
    std::atomic_thread_fence(std::memory_order_acquire);
    c10::impl::GenericList list = lists[*instruction.kept].toList();
    list.clear();
    return list;
  }
  c10::impl::GenericList list(instruction.element);
  list.reserve(instruction.operands.size());
  if (instruction.kept)
    lists[*instruction.kept] = list;
  return list;
}

void Executor::makeList(const LoadedInstruction &instruction) {
  c10::impl::GenericList list = emptyList(instruction);
  for (Operand operand : instruction.operands) {
    IValue item = take(operand);
    checkElement(item, *instruction.element);
    list.push_back(std::move(item));
  }
  store(instruction.results[0], std::move(list));
}

void Executor::makeTuple(const LoadedInstruction &instruction) {
  std::vector<IValue> items;
  items.reserve(instruction.operands.size());
  for (Operand operand : instruction.operands)
    items.push_back(take(operand));
  store(instruction.results[0], c10::ivalue::Tuple::create(std::move(items)));
}

void Executor::makeDict(const LoadedInstruction &instruction) {
  c10::impl::GenericDict dict(instruction.element, instruction.value);
  std::vector<IValue> entries;
  entries.reserve(instruction.operands.size());
  for (Operand operand : instruction.operands)
    entries.push_back(take(operand));
  checkEntries(entries);
  for (size_t i = 0; i + 1 < entries.size(); i += 2) {
    checkElement(entries[i], *instruction.element);
    checkElement(entries[i + 1], *instruction.value);
    dict.insert_or_assign(std::move(entries[i]), std::move(entries[i + 1]));
  }
  store(instruction.results[0], std::move(dict));
}

void Executor::unpack(const LoadedInstruction &instruction) {
  IValue whole = take(instruction.operands[0]);
  TORCH_CHECK(whole.isTuple() || whole.isList(), "found ", whole.tagKind(), ", expected a tuple or a list");
  ArrayRef<IValue> items =
      whole.isTuple()
          ? ArrayRef<IValue>(whole.toTupleRef().elements().begin(), whole.toTupleRef().elements().size())
          : ArrayRef<IValue>(whole.toListRef().data(), whole.toListRef().size());
  TORCH_CHECK(items.size() == instruction.results.size(), "found ", items.size(), " items, expected ",
              instruction.results.size());
  for (size_t i = 0; i < items.size(); ++i)
    store(instruction.results[i], items[i]);
}

void Executor::choose(const LoadedInstruction &instruction) {
  const bool condition = take(instruction.operands[0]).toBool();
  const LoadedBlock &block = *instruction.blocks[condition ? 0 : 1];
  runBlock(block);
  enter(&instruction);
  push(block.results);
  popInto(instruction.results);
}

void Executor::loop(const LoadedInstruction &instruction) {
  const LoadedBlock &body = *instruction.blocks[0];
  push(instruction.operands);
  const int64_t trips = stack.at(0).toInt();
  bool more = stack.at(1).toBool();
  stack.erase(stack.begin());
  // From here on the stack holds [condition, carried…]; it is empty during an iteration.
  for (int64_t iteration = 0; iteration < trips && more; ++iteration) {
    TORCH_CHECK(!context->cancelled.load(std::memory_order_relaxed), "the request was cancelled");
    stack[0] = iteration;
    popInto(body.params);
    runBlock(body);
    enter(&instruction);
    push(body.results);
    more = stack.at(0).toBool();
  }
  stack.erase(stack.begin());
  popInto(instruction.results);
  for (uint32_t slot : body.params)
    slots[slot] = IValue();
}

void Executor::vjp(const LoadedInstruction &instruction) {
  const LoadedBlock &body = *instruction.blocks[0];
  const size_t outputCount = body.results.size(), gradientCount = instruction.results.size() - outputCount;
  push(instruction.operands);
  std::vector<IValue> operands;
  std::swap(operands, stack);
  stack.reserve(code->stackDepth());
  const AutogradScope autograd(operands, outputCount, gradientCount);
  for (auto [slot, value] : llvm::zip(body.params, autograd.inputs()))
    slots[slot] = value;
  runBlock(body);
  enter(&instruction);
  push(body.results);
  for (uint32_t slot : body.params)
    slots[slot] = IValue();
  autograd.finish(stack);
  popInto(instruction.results);
}

void Executor::readState(const LoadedInstruction &instruction) {
  const uint32_t state = instruction.source->op;
  store(instruction.results[0],
        instruction.operands.empty()
            ? IValue(context->states->sum(state, context->part.position, device))
            : context->states->read(state, context->part, take(instruction.operands[0])));
}

void Executor::writeWeight(const LoadedInstruction &instruction) {
  const at::Tensor &weight = weights.at(instruction.source->op);
  const at::Tensor value = take(instruction.operands[0]).toTensor();
  TORCH_CHECK(value.sizes() == weight.sizes(), "found a new value of sizes ", value.sizes(),
              " for a weight of sizes ", weight.sizes());
  weight.copy_(value);
}

void Executor::updateWeight(const LoadedInstruction &instruction) {
  const plan::OptimizerConfig &config = *instruction.source->optimizer;
  const at::Tensor &weight = weights.at(instruction.source->op);
  std::vector<at::Tensor> states;
  for (uint32_t state : config.states)
    states.push_back(context->states->optimizerState(state, context->part.position, weight));
  const IValue gradScale = take(instruction.operands[3]);
  const OptimizerInputs inputs{.gradient = take(instruction.operands[0]).toTensor(),
                               .learningRate = take(instruction.operands[1]).toTensor(),
                               .stepNumber = take(instruction.operands[2]).toTensor(),
                               .gradScale =
                                   gradScale.isNone() ? std::nullopt : std::optional(gradScale.toTensor()),
                               .foundInf = take(instruction.operands[4]).toTensor()};
  applyOptimizerStep(config, weight, states, inputs);
}

void Executor::writeState(const LoadedInstruction &instruction) {
  context->states->write(instruction.source->op, context->part, take(instruction.operands[0]));
}

void Executor::checkNan(const LoadedInstruction &instruction) const {
  for (uint32_t slot : instruction.results)
    if (slots[slot].isTensor() && slots[slot].toTensor().defined() &&
        slots[slot].toTensor().is_floating_point())
      TORCH_CHECK(!slots[slot].toTensor().isnan().any().item<bool>(), "makes a NaN");
}

void Executor::checkTypes(ArrayRef<uint32_t> written) const {
  for (uint32_t slot : written)
    types->check(slot, slots[slot], context->symbols);
}

void Executor::checkInputTypes() const {
  for (const auto &input : program.inputs)
    types->check(input->slot, slots[input->slot], context->symbols);
}

} // namespace cleave::runtime
