//===- Executor.h - Executes a program --------------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H
#define CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H

#include "codegen/plan/Plan.h"
#include "runtime/base/TypeCheck.h"
#include "runtime/device/DevicePlugin.h"
#include "runtime/executor/ExecutionContext.h"
#include "runtime/executor/LoadedProgram.h"
#include "runtime/executor/WeightStore.h"
#include "runtime/operators/ContainerAccount.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/ivalue.h>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Executes one program on its slots, one request at a time. A value is dropped after its last use, so
/// between requests only constants, weights, sizes and results of the set-up stay in memory.
class Executor {
public:
  /// Loads a program and runs its set-up. `plan`, `program`, `weights` and `operators` must outlive the
  /// result.
  /// \param weights  on the device `device`, where the program runs. Inputs are moved there. If `device` is a
  ///     GPU, it replaces every device constant of the program.
  /// \param profiler  if not null, receives a profiler range for each instruction, named by module path.
  /// \param rank     for messages.
  static llvm::Expected<std::unique_ptr<Executor>> load(const plan::Plan &plan, const plan::Program &program,
                                                        const WeightStore &weights, Operators &operators,
                                                        c10::Device device, bool checkTypes,
                                                        DevicePlugin *profiler = nullptr, uint32_t rank = 0);

  /// Sets input `index` of the next run.
  void setInput(size_t index, c10::IValue value);

  /// Runs on the inputs set since the last run. Puts the program's results into `outputs`; none, if the
  /// context's taps end the run. Throws what an operator throws. Once the run is cancelled, throws before the
  /// next instruction or loop iteration. `position` then tells where.
  void run(const ExecutionContext &context, std::vector<c10::IValue> &outputs);

  /// Drops the values that an unfinished request has left in the slots.
  void clear();

  /// The instruction that runs or, between runs, ran last, `transformer.h.3.attn: aten::addmm`; empty before
  /// the first one. Thread-safe.
  std::string position() const;

  /// The instruction that makes output `index`, in the same format; empty where none does.
  std::string makerOf(size_t index) const { return code->makerOf(index); }

  // For signal handlers.
  uint32_t stage() const { return program.stage; }
  /// The instruction that runs or, between runs, ran last; null before the first one.
  const plan::Instruction *instruction() const {
    const LoadedInstruction *last = current.load(std::memory_order_relaxed);
    return last ? last->source : nullptr;
  }
  const char *pathOf(const plan::Instruction &instruction) const { return code->pathOf(instruction); }
  const char *nameOf(const plan::Instruction &instruction) const { return code->nameOf(instruction); }

private:
  Executor(const plan::Program &program, std::unique_ptr<LoadedProgram> code, const WeightStore &weights,
           c10::Device device, uint32_t rank);
  llvm::Error fillSlots();
  /// Runs the instructions that precede the first request.
  llvm::Error setUp();

  /// Publishes the current instruction. A relaxed store, since every instruction does it.
  void enter(const LoadedInstruction *instruction) { current.store(instruction, std::memory_order_relaxed); }
  void bindSizes();
  void runBlock(const LoadedBlock &block);
  /// Runs the main block with the taps of the context. False if it has stopped before its end.
  bool runWithTaps();
  void step(const LoadedInstruction &instruction);
  void execute(const LoadedInstruction &instruction);
  void call(const LoadedInstruction &instruction);
  void callCollective(const LoadedInstruction &instruction);
  void makeList(const LoadedInstruction &instruction);
  c10::impl::GenericList emptyList(const LoadedInstruction &instruction);
  void makeTuple(const LoadedInstruction &instruction);
  void makeDict(const LoadedInstruction &instruction);
  void unpack(const LoadedInstruction &instruction);
  void choose(const LoadedInstruction &instruction);
  void loop(const LoadedInstruction &instruction);
  void vjp(const LoadedInstruction &instruction);
  void readState(const LoadedInstruction &instruction);
  void writeState(const LoadedInstruction &instruction);
  void writeWeight(const LoadedInstruction &instruction);
  void updateWeight(const LoadedInstruction &instruction);
  /// Throws if a result has a NaN.
  void checkNan(const LoadedInstruction &instruction) const;
  void checkTypes(llvm::ArrayRef<uint32_t> written) const;
  void checkInputTypes() const;

  c10::IValue take(Operand operand);
  /// Puts the result of an instruction into its slot.
  void store(uint32_t slot, c10::IValue value);
  void push(llvm::ArrayRef<Operand> operands);
  void popInto(llvm::ArrayRef<uint32_t> results);

  const plan::Program &program;
  const std::unique_ptr<LoadedProgram> code;
  const WeightStore &weights;
  const c10::Device device;
  const uint32_t rank;
  std::optional<TypeCheck> types;
  DevicePlugin *profiler = nullptr;
  std::vector<c10::IValue> slots;
  /// Accounts for the lists, tuples, dicts and strings in the slots.
  ContainerAccount containers;
  /// Empty between instructions; kept for its capacity.
  torch::jit::Stack stack;
  /// Lists of numbers from previous runs. A list is refilled if nothing else refers to it any more.
  std::vector<c10::IValue> lists;
  std::atomic<const LoadedInstruction *> current{nullptr};
  /// Of the present run.
  const ExecutionContext *context = nullptr;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_EXECUTOR_H
