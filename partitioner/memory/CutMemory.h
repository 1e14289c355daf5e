//===- CutMemory.h - Memory of pipeline ranks under a cut -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MEMORY_CUTMEMORY_H
#define CLEAVE_PARTITIONER_MEMORY_CUTMEMORY_H

#include "partitioner/cost/ModelGraph.h"

namespace cleave {

/// Peak memory of a device, in bytes: `weights` of all its stages, and `activations`, the maximum of the
/// bytes alive at one time beside the weights.
struct RankMemory {
  int64_t weights = 0, activations = 0;
  int64_t bytes() const { return weights + activations; }
};

/// By pipeline rank, or by rank of a plan: bytes of memory of its device; nothing for a device that is not
/// limited.
using MemoryBudgets = std::vector<std::optional<int64_t>>;
using MemoryBudgetsRef = llvm::ArrayRef<std::optional<int64_t>>;

/// Among the pipeline ranks that exceed their budgets, the one that needs most bytes; nothing if all fit.
std::optional<MemoryShortage> shortageOf(llvm::ArrayRef<RankMemory> ranks, MemoryBudgetsRef budgets);

/// Predicts the memory of pipeline ranks under cuts of one function, for micro-batches of one size. Stage s
/// of a cut is on pipeline rank s mod `ranks`. CutMemoryPredictor predicts it for programs. The interface is
/// virtual because tests of MemoryConstrainedCutter use graphs with synthetic memory and no program.
class CutMemory {
public:
  virtual ~CutMemory() = default;
  /// By pipeline rank: memory of its tensor-parallel rank that holds most, as a plan predicts it.
  virtual std::vector<RankMemory> of(const ModelGraph &model, llvm::ArrayRef<uint32_t> stageOf,
                                     uint32_t ranks) const = 0;
  /// Candidates for the tensor-parallel rank that holds most; one of them always does.
  virtual std::vector<uint32_t> fullestRankCandidates() const { return {0}; }
  /// A number of bytes b such that no cut fits if budgets are raised to at least c bytes each, for any c
  /// below b. (If b is at most the smallest budget, that says nothing about the budgets themselves.)
  virtual int64_t lowerBound(const ModelGraph &model, MemoryBudgetsRef budgets) const = 0;
};

/// By pipeline rank: a budget such that a cut which exceeds it cannot fit, whichever of its tensor-parallel
/// ranks holds most. It is the memory of the largest device among the tensor-parallel ranks of
/// CutMemory::fullestRankCandidates, and of the smallest device among data-parallel ranks, which hold the
/// same.
MemoryBudgets largestBudgets(const CutMemory &memory, const Machine &machine, uint32_t ranks,
                             uint32_t tensorParallelSize, uint32_t dataParallelSize = 1);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MEMORY_CUTMEMORY_H
