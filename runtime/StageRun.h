//===- StageRun.h - A stage, and a request's passage through it -*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_STAGERUN_H
#define CLEAVE_RUNTIME_STAGERUN_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/Schedule.h"
#include "runtime/Executor.h"
#include "runtime/Request.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cleave::runtime {

/// The program of one stage with what it has given for the request under way: each result is held until the
/// last transfer has taken it.
class StageRun {
public:
  /// \param transfers  all transfers of the signature.
  StageRun(const plan::Signature &signature, const plan::Program &program, std::unique_ptr<Executor> executor,
           llvm::ArrayRef<plan::Transfer> transfers);

  uint32_t stage() const { return program.stage; }
  std::string position() const { return executor->position(); }

  /// Gives the program what a transfer brings.
  void receive(const plan::Transfer &transfer, std::vector<c10::IValue> values);
  /// Runs the program and hands the request its outputs. Throws what an operator throws.
  void forward(Request &request);
  /// What a transfer takes away, after forward.
  std::vector<c10::IValue> take(const plan::Transfer &transfer);
  /// Drops what the request has left here.
  void clear();

private:
  /// A result that is a leaf of the signature's outputs.
  struct Leaf {
    uint32_t result, leaf;
  };

  const plan::Program &program;
  const std::unique_ptr<Executor> executor;
  std::vector<Leaf> leaves;
  /// By result: how many transfers take it, and how many have not yet.
  std::vector<uint32_t> readers, readersLeft;
  std::vector<c10::IValue> results;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STAGERUN_H
