//===- LoadedProgram.h - A resolved program ---------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_LOADEDPROGRAM_H
#define CLEAVE_RUNTIME_EXECUTOR_LOADEDPROGRAM_H

#include "codegen/plan/Plan.h"
#include "runtime/comm/CollectiveCall.h"
#include "runtime/operators/Operators.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

/// `last`: nothing reads the slot after this, so its value is moved out.
struct Operand {
  uint32_t slot;
  bool last;
};

struct LoadedBlock;

struct LoadedInstruction {
  plan::InstructionKind kind;
  /// Call and Collective: the operator, and whether it takes the number of its operands as a last operand
  /// (`aten::format`).
  torch::jit::Operation *operation = nullptr;
  bool countsOperands = false;
  std::optional<CollectiveOp> collective;
  /// List: the element type. Dict: key and value types.
  c10::TypePtr element, value;
  /// List of numbers: index of the kept list that it refills.
  std::optional<uint32_t> kept;
  llvm::ArrayRef<Operand> operands;
  llvm::ArrayRef<uint32_t> results;
  /// Slots to clear afterwards, except those moved out by `operands`.
  llvm::ArrayRef<uint32_t> releases;
  llvm::ArrayRef<const LoadedBlock *> blocks;
  const plan::Instruction *source;
};

struct LoadedBlock {
  llvm::ArrayRef<uint32_t> params;
  std::vector<LoadedInstruction> instructions;
  llvm::ArrayRef<Operand> results;
};

/// A program with its operators resolved and every last use known. Constants, sizes, weights and values
/// computed from these at load keep their slots from request to request; any other value leaves its slot with
/// its last use.
class LoadedProgram {
public:
  /// `program` must be valid. It and `operators` must outlive the result. Where `device` is a GPU, factory
  /// operators (such as `aten::zeros`) with an unspecified device get the device in deviceSlot, and constants
  /// given for an `allow_tf32` are replaced by the value in tf32Slot.
  static llvm::Expected<std::unique_ptr<LoadedProgram>>
  load(const plan::Plan &plan, const plan::Program &program, Operators &operators, c10::Device device);

  /// Instructions that run once, before the first request; their results keep their slots.
  llvm::ArrayRef<LoadedInstruction> setup() const { return setupInstructions; }
  const LoadedBlock &main() const { return blocks.front(); }
  /// The program's results, taken from its slots.
  llvm::ArrayRef<Operand> outputs() const { return outputSlots; }
  /// Slots whose values belong to one request.
  llvm::ArrayRef<uint32_t> requestSlots() const { return transient; }
  size_t slotCount() const { return program.slots + 2; }
  /// An extra slot that holds the program's device.
  uint32_t deviceSlot() const { return program.slots; }
  /// An extra slot that holds a bool: whether convolutions on GPUs may use TF32.
  uint32_t tf32Slot() const { return program.slots + 1; }
  /// Most operands or results of one instruction.
  size_t stackDepth() const { return depth; }
  /// Number of lists that are kept from run to run for their memory.
  size_t keptLists() const { return kept; }
  /// The instruction that makes output `index`, as `describe` formats it; empty where that is an input,
  /// weight or constant.
  std::string makerOf(size_t index) const;
  /// `transformer.h.3.attn: aten::addmm`.
  std::string describe(const LoadedInstruction &instruction) const;
  /// The parts of that text. Async-signal-safe.
  const char *pathOf(const plan::Instruction &instruction) const {
    return plan.paths[instruction.path].c_str();
  }
  const char *nameOf(const plan::Instruction &instruction) const;

private:
  LoadedProgram(const plan::Plan &plan, const plan::Program &program) : plan(plan), program(program) {}
  friend class ProgramLoader;

  const plan::Plan &plan;
  const plan::Program &program;
  llvm::BumpPtrAllocator memory;
  std::vector<LoadedInstruction> setupInstructions;
  std::vector<LoadedBlock> blocks;
  llvm::ArrayRef<Operand> outputSlots;
  std::vector<uint32_t> transient;
  size_t depth = 0;
  uint32_t kept = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_LOADEDPROGRAM_H
