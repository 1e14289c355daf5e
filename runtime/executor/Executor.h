//===- Executor.h - Running a program ---------------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H
#define CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H

#include "codegen/plan/Plan.h"
#include "runtime/base/TypeCheck.h"
#include "runtime/device/DevicePlugin.h"
#include "runtime/executor/LoadedProgram.h"
#include "runtime/executor/States.h"
#include "runtime/executor/WeightStore.h"
#include "runtime/operators/HostValues.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/ivalue.h>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

/// One program with the slots it runs on. Runs one request at a time; what a request leaves behind is dropped
/// with its last use, so that between requests only constants and weights are held.
class Executor {
public:
  /// `plan`, `program`, `operators` and `states` must outlive the result. `weights` are on `place`, where the
  /// program runs: its inputs are brought there, and what the original says of devices means that one.
  /// `ranges` is told of each instruction by its module path, if given. `rank` is whose program it is, for
  /// messages.
  static llvm::Expected<std::unique_ptr<Executor>> load(const plan::Plan &plan, const plan::Program &program,
                                                        const WeightStore &weights, Operators &operators,
                                                        States &states, c10::Device place, bool checkTypes,
                                                        DevicePlugin *ranges = nullptr, uint32_t rank = 0);

  /// Gives the next run its input `index`.
  void setInput(size_t index, c10::IValue value);

  /// Runs on the inputs set since the last run, with size `symbols[i]` for symbol i, and puts what the
  /// program gives into `outputs`. Throws what an operator throws, and soon after `cancelled` turns true; see
  /// position.
  void run(llvm::ArrayRef<int64_t> symbols, const std::atomic<bool> &cancelled,
           std::vector<c10::IValue> &outputs);

  /// Drops what an unfinished request has left in the slots.
  void clear();

  /// What ran last: `transformer.h.3.attn: aten::addmm`; empty before the first instruction. Of any thread.
  std::string position() const;

  /// What makes output `index`, in the same words; empty where nothing does.
  std::string makerOf(size_t index) const { return code->makerOf(index); }

  // For signal handlers.
  uint32_t stage() const { return program.stage; }
  /// What ran last; null before the first.
  const plan::Instruction *instruction() const {
    const LoadedInstruction *last = current.load(std::memory_order_relaxed);
    return last ? last->source : nullptr;
  }
  const char *pathOf(const plan::Instruction &instruction) const { return code->pathOf(instruction); }
  const char *nameOf(const plan::Instruction &instruction) const { return code->nameOf(instruction); }

private:
  Executor(const plan::Program &program, std::unique_ptr<LoadedProgram> code, States &states, c10::Device place,
           uint32_t rank);
  llvm::Error fillSlots(const WeightStore &weights);
  /// Runs what comes before the first request.
  llvm::Error setUp();

  /// Says what runs. A plain store: on the way of every instruction.
  void enter(const LoadedInstruction *instruction) { current.store(instruction, std::memory_order_relaxed); }
  void bindSizes();
  void runBlock(const LoadedBlock &block);
  void execute(const LoadedInstruction &instruction);
  void call(const LoadedInstruction &instruction);
  void makeList(const LoadedInstruction &instruction);
  c10::impl::GenericList emptyList(const LoadedInstruction &instruction);
  void makeTuple(const LoadedInstruction &instruction);
  void makeDict(const LoadedInstruction &instruction);
  void unpack(const LoadedInstruction &instruction);
  void choose(const LoadedInstruction &instruction);
  void loop(const LoadedInstruction &instruction);
  void readState(const LoadedInstruction &instruction);
  void writeState(const LoadedInstruction &instruction);
  void checkTypes(llvm::ArrayRef<uint32_t> written) const;
  void checkInputTypes() const;

  c10::IValue take(Operand operand);
  /// Puts what an instruction has made into its slot.
  void store(uint32_t slot, c10::IValue value);
  void push(llvm::ArrayRef<Operand> operands);
  void popInto(llvm::ArrayRef<uint32_t> results);

  const plan::Program &program;
  const std::unique_ptr<LoadedProgram> code;
  States &states;
  const c10::Device place;
  const uint32_t rank;
  std::optional<TypeCheck> types;
  DevicePlugin *ranges = nullptr;
  std::vector<c10::IValue> slots;
  /// What the slots hold beside tensors.
  HostValues hostValues;
  /// Empty between instructions; kept for its capacity.
  torch::jit::Stack stack;
  /// Lists of numbers that runs have made; made anew where nobody else holds them any more.
  std::vector<c10::IValue> lists;
  std::atomic<const LoadedInstruction *> current{nullptr};
  llvm::ArrayRef<int64_t> symbols;
  const std::atomic<bool> *cancelled = nullptr;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H
