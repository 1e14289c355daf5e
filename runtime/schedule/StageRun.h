//===- StageRun.h - A stage, and a request's state through it -*- C++ -*-===//
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

/// The program of one stage with what it has taken and given for each micro-batch of the request under way: a
/// result is held until the last transfer has taken it.
class StageRun {
public:
  /// \param transfers  all transfers of the signature.
  StageRun(const plan::Signature &signature, const plan::Program &program, std::unique_ptr<Executor> executor,
           const States &states, llvm::ArrayRef<plan::Transfer> transfers, uint32_t microbatches);

  /// Runs the program as CUDA graphs from now on, on the GPU `place`.
  void useGraphs(const plan::Plan &plan, DevicePlugin &plugin, c10::Device place) {
    graph = std::make_unique<GraphedStage>(plan, program, *executor, plugin, place);
  }
  /// Why it is none although that is wanted; empty otherwise.
  std::string obstacle() const { return graph ? graph->obstacle() : ""; }

  uint32_t stage() const { return program.stage; }
  std::string position() const { return executor->position(); }

  /// Keeps what a transfer brings for the program: as many values as it has inputs.
  void receive(const plan::Transfer &transfer, uint32_t microbatch,
               llvm::MutableArrayRef<c10::IValue> values);
  /// Runs the program and hands the request its outputs. Throws what an operator throws.
  /// \param global  the micro-batch among those of all data ranks.
  void forward(Request &request, uint32_t microbatch, uint32_t global);
  /// What a transfer takes away, after forward.
  void take(const plan::Transfer &transfer, uint32_t microbatch, std::vector<c10::IValue> &values);
  /// Drops what the request has left here.
  void clear();

private:
  /// A result that is a leaf of the signature's outputs. Tensor ranks have the same, of which the first one
  /// gives it.
  struct Leaf {
    uint32_t result, leaf;
  };
  /// The way of a micro-batch through the stage: what other stages gave, by program input, and results.
  struct MicrobatchState {
    std::vector<c10::IValue> inputs, results;
    /// By result: how many transfers have not taken it yet.
    std::vector<uint32_t> readersLeft;
  };

  MicrobatchState &stateOf(uint32_t microbatch);
  /// Runs the program on the state's inputs.
  void run(Request &request, uint32_t global, MicrobatchState &state);

  /// Output `leaf` of the request, with memory for each of its elements. Throws where there is none.
  at::Tensor outputOf(Leaf leaf, const c10::IValue &result) const;

  const plan::Signature &signature;
  const plan::Program &program;
  const std::unique_ptr<Executor> executor;
  /// Null where the executor runs the program.
  std::unique_ptr<GraphedStage> graph;
  const States &states;
  std::vector<Leaf> leaves;
  /// By result: how many transfers take it.
  std::vector<uint32_t> readers;
  std::vector<MicrobatchState> microbatchStates;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SCHEDULE_STAGERUN_H
