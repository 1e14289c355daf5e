//===- PlannedMemory.h - What plans would predict of memory -----*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLANNEDMEMORY_H
#define CLEAVE_CODEGEN_PLANNEDMEMORY_H

#include "codegen/MemoryPlan.h"
#include "codegen/Microbatch.h"
#include "partitioner/CutFitting.h"

namespace cleave {

/// Of a program of all tensor ranks, before it is split into stages: what a plan predicts of the first rank
/// of each group, which has the largest parts and the outputs.
class PlannedMemory : public CutMemory {
public:
  /// \param microbatch  of the function, which must outlive it.
  /// \param machine     whose devices have the threads that operators share.
  PlannedMemory(mlir::func::FuncOp function, Microbatch microbatch, const Machine &machine);

  std::vector<RankMemory> of(const ModelGraph &model, llvm::ArrayRef<uint32_t> stageOf,
                             uint32_t ranks) const override;

  /// An operation's operands and results live at once wherever it runs, beside the weights that it reads; and
  /// all weights with so much beside them are in what ranks have more than that.
  int64_t least(const ModelGraph &model, RoomsRef rooms) const override;

private:
  struct Needs {
    /// Some rank's.
    int64_t ofOne = 0;
    /// Bytes beside weights, descending, and all weights that have these or more beside them wherever they
    /// are read.
    std::vector<std::pair<int64_t, int64_t>> ofAll;
  };
  Needs needsOf(const ModelGraph &model) const;
  int64_t threadsOf(uint32_t stage, uint32_t ranks) const;
  int64_t besideWeights(llvm::ArrayRef<mlir::Operation *> ops) const;
  int64_t givenBy(mlir::Value value) const;

  /// Mutable, as all operations of MLIR are.
  mutable mlir::func::FuncOp function;
  Microbatch microbatch;
  TracedShapes whole;
  std::vector<int64_t> threads;
  int64_t leastThreads = 1;
  /// Storages that no stage counts: of weights, states and the request's inputs.
  llvm::DenseSet<unsigned> foreign;
};

} // namespace cleave

#endif // CLEAVE_CODEGEN_PLANNEDMEMORY_H
