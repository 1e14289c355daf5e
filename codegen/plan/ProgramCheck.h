//===- ProgramCheck.h - Checks of one program -------------------*- C++ -*-===//
//
// Private to codegen/plan/. ValidateInstructions.cpp checks instructions, ValidateProgram.cpp the rest.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PLAN_PROGRAMCHECK_H
#define CLEAVE_CODEGEN_PLAN_PROGRAMCHECK_H

#include "codegen/plan/ValidateParts.h"
#include <optional>
#include <set>

namespace cleave::plan {

/// State of a slot at one point of the program. Fixed slots hold constants, sizes and weights, and stay.
enum class SlotState : uint8_t { Unwritten, Fixed, Live, Gone };

/// Follows a program like the executor, each block once. Every slot must be written at one point, be read
/// only while it is written and not released, and be released by the block that wrote it.
class ProgramCheck {
public:
  ProgramCheck(const Plan &plan, const Program &program);
  llvm::Error run();

private:
  llvm::Error checkTables();
  llvm::Error checkTypes();
  llvm::Error writeFixed();
  llvm::Error writeSizes();
  llvm::Error checkSetup();
  bool mayTake(const ProgramInput &input) const;
  bool hasBatch(uint32_t input) const;
  llvm::Error writeInputs();
  llvm::Error checkOutputs();
  llvm::Error checkBlock(uint32_t index, int depth);
  llvm::Error checkInstruction(const Instruction &instruction, uint32_t block, int depth);
  llvm::Error checkKind(const Instruction &instruction);
  llvm::Error checkCollective(const Instruction &instruction);
  llvm::Error checkStateAccess(const Instruction &instruction);
  llvm::Error checkWeightWrite(const Instruction &instruction);
  llvm::Error checkWeightUpdate(const Instruction &instruction);
  bool isShardedAs(const State &state, const Weight &weight) const;
  llvm::Error checkNested(const Instruction &instruction, uint32_t block, int depth);
  llvm::Error checkNestedCounts(const Instruction &instruction);
  llvm::Error checkVjpCounts(const Instruction &instruction);

  llvm::Error write(uint32_t slot, uint32_t block, SlotState state);
  llvm::Error read(uint32_t slot, const char *what);
  llvm::Error release(uint32_t slot, uint32_t block);
  /// Hides the slots that a nested block has written from the code after it.
  void hide(const Block &block);
  /// The program and the current instruction.
  std::string where() const;
  llvm::Error refuse(const llvm::Twine &what) const { return invalid(where(), what); }
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
  /// Block of the Vjp instruction that encloses the current one, directly or not; nothing outside of one.
  std::optional<uint32_t> vjpBlock;
  /// Slots of constants and sizes.
  std::set<uint32_t> numbers;
};

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_PROGRAMCHECK_H
