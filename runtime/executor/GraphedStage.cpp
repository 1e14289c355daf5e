//===- GraphedStage.cpp - A stage as a CUDA graph -------------------------===//
#include "runtime/executor/GraphedStage.h"
#include "runtime/base/Exceptions.h"
#include "runtime/base/Values.h"
#include "runtime/comm/CollectiveCall.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <optional>

namespace cleave::runtime {

using c10::IValue;
using llvm::ArrayRef;
using llvm::MutableArrayRef;
using plan::InstructionKind;

/// Eager runs before a capture: libraries choose algorithms and allocate workspaces in the first one.
static constexpr uint32_t kWarmUps = 2;
/// Most captures of a stage: each holds the memory of a whole run.
static constexpr size_t kMaxSizes = 8;

/// True if `call` has a constant dropout probability of zero, and so draws no random numbers.
static bool dropsNothing(const plan::Program &program, const plan::Instruction &call,
                         const c10::FunctionSchema &schema) {
  std::optional<int> chance = schema.argumentIndexWithName("dropout_p");
  if (!chance || size_t(*chance) >= call.operands.size())
    return false;
  return llvm::any_of(program.constants, [&](const auto &constant) {
    return constant->slot == call.operands[*chance] && constant->value->kind == plan::ConstantKind::Float &&
           constant->value->real == 0;
  });
}

/// Why a call of operator `qualified` cannot be captured; empty if no reason is known.
static std::string obstacleIn(const std::string &qualified, const plan::Program &program,
                              const plan::Instruction &call) {
  if (collectiveOf(qualified))
    return "it has collectives (" + qualified + ")";
  auto [name, overload] = llvm::StringRef(qualified).split('.');
  auto found = c10::Dispatcher::singleton().findSchema({name.str(), overload.str()});
  if (!found)
    return "";
  if (found->hasTag(at::Tag::nondeterministic_seeded) && !dropsNothing(program, call, found->schema()))
    return "it draws random numbers (" + qualified + ")";
  // `index` depends on data only for masks; then the capture fails.
  const bool isDependent =
      found->hasTag(at::Tag::data_dependent_output) ||
      (found->hasTag(at::Tag::dynamic_output_shape) && qualified != "aten::index.Tensor");
  return isDependent ? "what it calls depends on contents of tensors (" + qualified + ")" : "";
}

static std::string obstacleIn(const plan::Plan &plan, const plan::Program &program,
                              const plan::Instruction &instruction) {
  switch (instruction.kind) {
  case InstructionKind::Call:
  case InstructionKind::Collective:
    return obstacleIn(plan.operators[instruction.op], program, instruction);
  case InstructionKind::If:
  case InstructionKind::Loop:
    return "it has branches or loops";
  case InstructionKind::Vjp:
    return "it runs PyTorch's autograd";
  case InstructionKind::StateRead:
  case InstructionKind::StateWrite:
  case InstructionKind::StateAccumulate:
    return "it keeps states";
  case InstructionKind::WeightWrite:
  case InstructionKind::WeightUpdate:
    return "it changes weights";
  default:
    return "";
  }
}

GraphedStage::GraphedStage(const plan::Plan &plan, const plan::Program &program, Executor &executor,
                           DevicePlugin &plugin, c10::Device device)
    : executor(executor), plugin(plugin), device(device) {
  for (const auto &block : program.blocks)
    for (const auto &instruction : block->instructions)
      if (reason.empty())
        reason = obstacleIn(plan, program, *instruction);
}

std::string GraphedStage::obstacle() const {
  std::lock_guard lock(mutex);
  return reason;
}

void GraphedStage::giveUp(std::string why) {
  std::lock_guard lock(mutex);
  reason = std::move(why);
}

void GraphedStage::runEagerly(MutableArrayRef<IValue> inputs, const ExecutionContext &context,
                              std::vector<IValue> &outputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    executor.setInput(i, std::move(inputs[i]));
  executor.run(context, outputs);
}

GraphedStage::CaptureEntry *GraphedStage::find(ArrayRef<IValue> inputs, ArrayRef<int64_t> symbols) {
  // Symbols as well: programs allocate sizes that none of their inputs has.
  std::vector<int64_t> key = symbols.vec();
  for (const IValue &input : inputs) {
    if (!input.isTensor() || input.toTensor().device() != device) {
      giveUp("it has an input that is no tensor on the GPU");
      return nullptr;
    }
    const at::Tensor &tensor = input.toTensor();
    key.insert(key.end(), {int64_t(tensor.scalar_type()), tensor.dim()});
    llvm::append_range(key, tensor.sizes());
    llvm::append_range(key, tensor.strides());
  }
  auto found = llvm::find_if(all, [&](const CaptureEntry &entry) { return entry.key == key; });
  if (found != all.end())
    return &*found;
  if (all.size() == kMaxSizes) {
    auto seldom = llvm::find_if(all, [](const CaptureEntry &entry) { return !entry.graph; });
    if (seldom == all.end())
      return nullptr;
    all.erase(seldom);
  }
  all.emplace_back().key = std::move(key);
  return &all.back();
}

bool GraphedStage::capture(CaptureEntry &entry, ArrayRef<IValue> inputs, ArrayRef<int64_t> symbols) {
  for (const IValue &input : inputs)
    entry.inputs.push_back(input.toTensor().clone());
  const std::atomic<bool> never{false};
  try {
    entry.graph = plugin.capture(device.index(), [&] {
      std::vector<IValue> copies = entry.inputs;
      runEagerly(copies, {symbols, never}, entry.outputs);
    });
    for (const IValue &output : entry.outputs)
      TORCH_CHECK(output.isTensor() ? output.toTensor().device() == device : output.isScalar(), "it gives a ",
                  output.tagKind(), " that is not on the GPU");
    return true;
  } catch (const std::exception &exception) {
    const std::string position = executor.position();
    giveUp("capturing it failed: " + (position.empty() ? "" : position + ": ") + messageOf(exception));
  }
  executor.clear();
  all.clear();
  return false;
}

void GraphedStage::replay(CaptureEntry &entry, ArrayRef<IValue> inputs, std::vector<IValue> &outputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    entry.inputs[i].toTensor().copy_(inputs[i].toTensor(), /*non_blocking=*/true);
  entry.graph->replay();
  outputs.clear();
  // The next replay overwrites the captured outputs.
  for (const IValue &output : entry.outputs)
    outputs.push_back(output.isTensor() ? IValue(output.toTensor().clone()) : output);
}

void GraphedStage::run(MutableArrayRef<IValue> inputs, const ExecutionContext &context,
                       std::vector<IValue> &outputs) {
  for (IValue &input : inputs)
    input = movedTo(device, std::move(input));
  CaptureEntry *entry = obstacle().empty() ? find(inputs, context.symbols) : nullptr;
  if (!entry || entry->runs++ < kWarmUps)
    return runEagerly(inputs, context, outputs);
  if (!entry->graph && !capture(*entry, inputs, context.symbols))
    return runEagerly(inputs, context, outputs);
  replay(*entry, inputs, outputs);
  for (IValue &input : inputs)
    input = IValue();
}

} // namespace cleave::runtime
