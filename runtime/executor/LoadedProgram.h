//===- LoadedProgram.h - A program as the executor runs it ---------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_LOADEDPROGRAM_H
#define CLEAVE_RUNTIME_EXECUTOR_LOADEDPROGRAM_H

#include "codegen/plan/Plan.h"
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
  /// Call: the operator, and whether it wants the number of its operands after them (`aten::format`).
  torch::jit::Operation *operation = nullptr;
  bool countsOperands = false;
  /// List: the element type. Dict: key and value types.
  c10::TypePtr element, value;
  /// List of numbers: which of the kept lists it makes anew.
  std::optional<uint32_t> kept;
  llvm::ArrayRef<Operand> operands;
  llvm::ArrayRef<uint32_t> results;
  /// Slots to empty afterwards, without those that `operands` has emptied.
  llvm::ArrayRef<uint32_t> releases;
  llvm::ArrayRef<const LoadedBlock *> blocks;
  const plan::Instruction *source;
};

struct LoadedBlock {
  llvm::ArrayRef<uint32_t> params;
  std::vector<LoadedInstruction> instructions;
  llvm::ArrayRef<Operand> results;
};

/// A program with its operators resolved and every last use known: constants, sizes, weights and what is made
/// of these at load stay in their slots from request to request, everything else leaves its slot with its
/// last reader.
class LoadedProgram {
public:
  /// `program` must be valid and outlive the result, as must `operators`. Where it runs on another `place`
  /// than the CPU, operators that make tensors of nothing and leave the device open get that of deviceSlot.
  static llvm::Expected<std::unique_ptr<LoadedProgram>> load(const plan::Plan &plan, const plan::Program &program,
                                                    Operators &operators, c10::Device place);

  /// What runs once, before the first request; its results stay in their slots.
  llvm::ArrayRef<LoadedInstruction> setup() const { return setupInstructions; }
  const LoadedBlock &main() const { return blocks.front(); }
  /// What the program gives, taken from its slots.
  llvm::ArrayRef<Operand> outputs() const { return outputSlots; }
  /// The slots whose values belong to a request.
  llvm::ArrayRef<uint32_t> requestSlots() const { return transient; }
  size_t slotCount() const { return program.slots + 1; }
  /// A slot beside the program's own, for the device that it runs on.
  uint32_t deviceSlot() const { return program.slots; }
  /// Most values that an instruction takes or gives at a time.
  size_t stackDepth() const { return depth; }
  /// How many lists are kept from run to run for their memory.
  size_t keptLists() const { return kept; }
  /// What makes output `index`, as `describe` says it; empty where that is an input, weight or constant.
  std::string makerOf(size_t index) const;
  /// `transformer.h.3.attn: aten::addmm`.
  std::string describe(const LoadedInstruction &instruction) const;
  /// Its parts. Safe in signal handlers.
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
