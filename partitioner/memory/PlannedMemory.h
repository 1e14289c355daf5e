//===- PlannedMemory.h - What plans would predict of memory -----*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MEMORY_PLANNEDMEMORY_H
#define CLEAVE_PARTITIONER_MEMORY_PLANNEDMEMORY_H

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include "partitioner/memory/CutMemory.h"
#include "partitioner/memory/MemoryPlan.h"
#include "partitioner/memory/Microbatch.h"
#include "llvm/ADT/SetVector.h"

namespace cleave {

/// Of a program of all tensor ranks, before it is split into stages: what a plan predicts of the rank of each
/// group that holds most. Where all parts are of the same sizes that is the first one, which has the outputs.
class PlannedMemory : public CutMemory {
public:
  /// Null, with a diagnostic, where the function does not run on so few samples.
  /// \param function  must outlive it.
  /// \param batch         the dimension that micro-batches split.
  /// \param microbatches  of a data rank.
  /// \param machine       whose devices have the threads that operators share.
  static std::unique_ptr<PlannedMemory> make(mlir::func::FuncOp function, llvm::StringRef batch,
                                             int64_t microbatches, const Machine &machine,
                                             uint32_t dataRanks = 1);

  std::vector<RankMemory> of(const ModelGraph &model, llvm::ArrayRef<uint32_t> stageOf,
                             uint32_t ranks) const override;

  std::vector<uint32_t> tensorRanks() const override;

  /// Of first tensor ranks: an operation's operands and results live at once wherever it runs, beside the
  /// weights that it reads; and all weights with so much beside them are in what ranks have more than that.
  int64_t least(const ModelGraph &model, MemoryBudgetsRef budgets) const override;

private:
  /// What tensor ranks run that hold alike; where the first one is among them, less at the most.
  struct Program {
    std::vector<unsigned> ranks;
    Microbatch microbatch;
    /// Nothing where it is the function itself, whose types are the first rank's.
    mlir::OwningOpRef<mlir::func::FuncOp> specialized;
    /// To that, from the function.
    mlir::IRMapping own;
  };
  struct Needs {
    /// Some rank's.
    int64_t ofOne = 0;
    /// Bytes beside weights, descending, and all weights that have these or more beside them wherever they
    /// are read.
    std::vector<std::pair<int64_t, int64_t>> ofAll;
  };
  PlannedMemory(mlir::func::FuncOp function, const Machine &machine, uint32_t dataRanks);
  mlir::LogicalResult addPrograms(llvm::StringRef batch, int64_t microbatches);
  void findForeign();
  Needs needsOf(const ModelGraph &model) const;
  llvm::SmallSetVector<int64_t, 4> threadsOf(const Program &program, uint32_t rank) const;
  const Microbatch &microbatch() const { return programs.front().microbatch; }
  int64_t besideWeights(llvm::ArrayRef<mlir::Operation *> ops) const;
  int64_t givenBy(mlir::Value value) const;

  /// Mutable, as all operations of MLIR are.
  mutable mlir::func::FuncOp function;
  const uint32_t dataRanks;
  /// The first rank's first.
  std::vector<Program> programs;
  ExampleShapes whole;
  /// By device.
  std::vector<int64_t> threads;
  int64_t leastThreads = 1;
  /// Storages that no stage counts: of weights, states and the request's inputs.
  llvm::DenseSet<unsigned> foreign;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MEMORY_PLANNEDMEMORY_H
