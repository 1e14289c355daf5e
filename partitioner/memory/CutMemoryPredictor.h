//===- CutMemoryPredictor.h - Memory as plans would predict it --*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MEMORY_CUTMEMORYPREDICTOR_H
#define CLEAVE_PARTITIONER_MEMORY_CUTMEMORYPREDICTOR_H

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include "partitioner/memory/CutMemory.h"
#include "partitioner/memory/Microbatch.h"
#include "partitioner/memory/StageMemory.h"
#include "llvm/ADT/SetVector.h"

namespace cleave {

/// Memory that a plan would predict for a program of all tensor-parallel ranks, before it is split into
/// stages. For each pipeline rank it is that of the tensor-parallel rank that holds most. If all shards have
/// the same sizes, that is rank 0, which holds the outputs.
class CutMemoryPredictor : public CutMemory {
public:
  /// Null, with a diagnostic, if the function does not run at the size of one micro-batch.
  /// \param function      must outlive the object.
  /// \param batch         the dimension that micro-batches split.
  /// \param microbatches  number for each data-parallel rank.
  /// \param machine       gives the threads of each device.
  static std::unique_ptr<CutMemoryPredictor> make(mlir::func::FuncOp function, llvm::StringRef batch,
                                                  int64_t microbatches, const Machine &machine,
                                                  uint32_t dataParallelSize = 1);

  std::vector<RankMemory> of(const ModelGraph &model, llvm::ArrayRef<uint32_t> stageOf,
                             uint32_t ranks) const override;

  std::vector<uint32_t> fullestRankCandidates() const override;

  /// Computed for the first tensor-parallel rank of each pipeline rank. Operands and results of an operation
  /// are alive at once wherever it runs, beside the weights that it reads. If every operation that reads a
  /// weight has at least b bytes of other values alive, the weight's rank needs b bytes besides it. Such
  /// weights must therefore share the ranks that have more than b bytes of memory.
  int64_t lowerBound(const ModelGraph &model, MemoryBudgetsRef budgets) const override;

private:
  /// Program of tensor-parallel ranks that hold values of the same sizes; other ranks than rank 0 may hold
  /// less than it.
  struct Program {
    std::vector<unsigned> ranks;
    Microbatch microbatch;
    /// Null if the program is the function itself, whose types are rank 0's.
    mlir::OwningOpRef<mlir::func::FuncOp> specialized;
    /// Maps values of the function to those of `specialized`.
    mlir::IRMapping own;
  };
  struct Needs {
    /// Bytes that at least one rank needs.
    int64_t largestNodeBytes = 0;
    /// Pairs (b, w) with b descending: w is the total size of the weights that, wherever they are read, have
    /// at least b bytes of other values alive.
    std::vector<std::pair<int64_t, int64_t>> weightNeeds;
  };
  CutMemoryPredictor(mlir::func::FuncOp function, int64_t microbatches, const Machine &machine,
                     uint32_t dataParallelSize);
  mlir::LogicalResult addPrograms(llvm::StringRef batch);
  void findUncountedStorages();
  Needs needsOf(const ModelGraph &model) const;
  llvm::SmallSetVector<int64_t, 4> threadsOf(const Program &program, uint32_t rank) const;
  const Microbatch &microbatch() const { return programs.front().microbatch; }
  int64_t besideWeights(llvm::ArrayRef<mlir::Operation *> ops) const;
  int64_t requestOutputBytes(mlir::Value value) const;

  /// Mutable because MLIR's operations have no const methods.
  mutable mlir::func::FuncOp function;
  /// Of each data-parallel rank.
  const int64_t microbatches;
  const uint32_t dataParallelSize;
  /// The program of rank 0 comes first.
  std::vector<Program> programs;
  ExampleShapes whole;
  /// By device: threads that share an operator.
  std::vector<int64_t> threads;
  int64_t leastThreads = 1;
  /// Storages that count for no stage: those of weights, states and the request's inputs.
  llvm::DenseSet<unsigned> uncountedStorages;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MEMORY_CUTMEMORYPREDICTOR_H
