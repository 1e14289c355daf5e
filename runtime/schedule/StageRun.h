//===- StageRun.h - Runs one stage of a request -----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SCHEDULE_STAGERUN_H
#define CLEAVE_RUNTIME_SCHEDULE_STAGERUN_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/Schedule.h"
#include "runtime/executor/Executor.h"
#include "runtime/executor/GraphedStage.h"
#include "runtime/schedule/Request.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cleave::runtime {

/// The program of one stage, with its inputs and results for each micro-batch of the current request. A
/// result is held until the last transfer has taken it.
class StageRun {
public:
  /// \param transfers  all transfers of the signature.
  StageRun(const plan::Signature &signature, const plan::Program &program, std::unique_ptr<Executor> executor,
           const States &states, llvm::ArrayRef<plan::Transfer> transfers, uint32_t microbatches);

  /// From now on runs the program as CUDA graphs, on the GPU `device`.
  void useGraphs(const plan::Plan &plan, DevicePlugin &plugin, c10::Device device) {
    graph = std::make_unique<GraphedStage>(plan, program, *executor, plugin, device);
  }
  /// Why there is no CUDA graph although one was requested; empty otherwise.
  std::string obstacle() const { return graph ? graph->obstacle() : ""; }

  uint32_t stage() const { return program.stage; }
  std::string position() const { return executor->position(); }

  /// Stores the values of a transfer as inputs of the program.
  void receive(const plan::Transfer &transfer, uint32_t microbatch,
               llvm::MutableArrayRef<c10::IValue> values);
  /// Runs the program, and adds its outputs to the request. Throws what an operator throws.
  /// \param tensorGroup  the rank in its tensor-parallel group; null if the group has one rank.
  /// \param global  index of the micro-batch among those of all data-parallel ranks.
  void forward(Request &request, Communicator *tensorGroup, uint32_t microbatch, uint32_t global);
  /// Takes the values of a transfer, after forward.
  void take(const plan::Transfer &transfer, uint32_t microbatch, std::vector<c10::IValue> &values);
  /// Drops all values of the request.
  void clear();

private:
  /// A result that is a leaf of the signature's outputs. Tensor-parallel ranks have equal results; the first
  /// of them gives the output.
  struct Leaf {
    uint32_t result, leaf;
  };
  /// One micro-batch: values of other stages, by program input, and results.
  struct MicrobatchState {
    std::vector<c10::IValue> inputs, results;
    /// By result: number of transfers that have not taken it yet.
    std::vector<uint32_t> readersLeft;
  };

  MicrobatchState &stateOf(uint32_t microbatch);
  /// Runs the program on the inputs in `state`.
  void run(Request &request, Communicator *tensorGroup, uint32_t global, MicrobatchState &state);

  /// Output `leaf` of the request, with memory for each of its elements. Throws if the result is not a
  /// tensor.
  at::Tensor outputOf(Leaf leaf, const c10::IValue &result) const;

  const plan::Signature &signature;
  const plan::Program &program;
  const std::unique_ptr<Executor> executor;
  /// Null where the executor runs the program.
  std::unique_ptr<GraphedStage> graph;
  const States &states;
  std::vector<Leaf> leaves;
  /// By result: number of transfers that take it.
  std::vector<uint32_t> readers;
  std::vector<MicrobatchState> microbatchStates;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SCHEDULE_STAGERUN_H
