//===- ProgramRun.h - Runs one program of a request -------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SCHEDULE_PROGRAMRUN_H
#define CLEAVE_RUNTIME_SCHEDULE_PROGRAMRUN_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/Schedule.h"
#include "runtime/executor/Executor.h"
#include "runtime/executor/GraphedStage.h"
#include "runtime/schedule/Request.h"
#include "llvm/ADT/ArrayRef.h"
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Values that go from one program to another for each micro-batch: a transfer between two stages, or the
/// stash of one stage. `inputs[i]` indexes the target's program inputs, `results[i]` the source's results.
struct ValueFlow {
  plan::ProgramKey source, target;
  std::vector<uint32_t> results, inputs;
};

/// All flows of a signature: transfers of activations, then those of gradients, then stashes. The index of a
/// transfer among the transfers identifies it in messages.
std::vector<ValueFlow> flowsOf(const plan::Plan &plan, uint32_t signature);
/// Number of transfers, which come first in flowsOf.
size_t transferCount(const plan::Plan &plan, uint32_t signature);

/// The program of one stage in one phase, with its inputs and results for each micro-batch of the current
/// request. A result is held until the last flow has taken it.
class ProgramRun {
public:
  /// \param rankPosition  of the rank among those that share its stages.
  /// \param flows         of the signature (flowsOf).
  ProgramRun(const plan::Plan &plan, const plan::Program &program, std::unique_ptr<Executor> executor,
             uint32_t rankPosition, llvm::ArrayRef<ValueFlow> flows, uint32_t microbatches);

  /// From now on runs the program as CUDA graphs, on the GPU `device`.
  void useGraphs(const plan::Plan &plan, DevicePlugin &plugin, c10::Device device) {
    graph = std::make_unique<GraphedStage>(plan, program, *executor, plugin, device);
  }
  /// Why there is no CUDA graph although one was requested; empty otherwise.
  std::string obstacle() const { return graph ? graph->obstacle() : ""; }

  plan::ProgramKey key() const { return {program.stage, program.phase}; }
  std::string position() const { return executor->position(); }

  /// Stores the values of a flow as inputs of the program.
  void receive(const ValueFlow &flow, uint32_t microbatch, llvm::MutableArrayRef<c10::IValue> values);
  /// Runs the program, and adds its outputs to the request. Throws what an operator throws.
  /// \param groups  see ExecutionContext.
  /// \param global  index of the micro-batch among those of all data-parallel ranks; 0 for an update.
  /// \param givesOutputs  false for an update of another data-parallel rank than the first.
  void run(Request &request, const std::array<Communicator *, 2> &groups, uint32_t microbatch,
           uint32_t global, bool givesOutputs);
  /// Takes the values of a flow, after run.
  void take(const ValueFlow &flow, uint32_t microbatch, std::vector<c10::IValue> &values);
  /// Drops all values of the request.
  void clear();

private:
  /// A result that is a leaf of the signature's outputs. Tensor-parallel ranks have equal results; the first
  /// of them gives the output.
  struct Leaf {
    uint32_t result, leaf;
  };
  /// One micro-batch: values of other programs, by program input, and results.
  struct MicrobatchState {
    std::vector<c10::IValue> inputs, results;
    /// By result: number of flows that have not taken it yet.
    std::vector<uint32_t> readersLeft;
  };

  MicrobatchState &stateOf(uint32_t microbatch);
  /// Executes the program on the inputs in `state`.
  void execute(Request &request, const std::array<Communicator *, 2> &groups, uint32_t global,
               MicrobatchState &state);

  /// Output `leaf` of the request, with memory for each of its elements. Throws if the result is not a
  /// tensor.
  at::Tensor outputOf(const Request &request, uint32_t global, Leaf leaf, const c10::IValue &result) const;
  MicrobatchSlice partOf(const Request &request, uint32_t global) const;

  const plan::Signature &signature;
  const plan::Program &program;
  const std::unique_ptr<Executor> executor;
  /// Null where the executor runs the program.
  std::unique_ptr<GraphedStage> graph;
  const uint32_t rankPosition;
  /// True if an update of the plan may change weights.
  const bool changesWeights;
  std::vector<Leaf> leaves;
  /// By result: number of flows that take it.
  std::vector<uint32_t> readers;
  std::vector<MicrobatchState> microbatchStates;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SCHEDULE_PROGRAMRUN_H
