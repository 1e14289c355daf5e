//===- CutMemory.h - Memory of pipeline ranks under a cut -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MEMORY_CUTMEMORY_H
#define CLEAVE_PARTITIONER_MEMORY_CUTMEMORY_H

#include "partitioner/cost/ModelGraph.h"

namespace cleave {

/// Peak memory of a device, in bytes: `weights` of all its stages, and `others`, the maximum alive at one
/// time beside them.
struct RankMemory {
  int64_t weights = 0, others = 0;
  int64_t bytes() const { return weights + others; }
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
  /// A value b such that no cut fits unless every budget below b is raised to b. The bound is of no use if b
  /// is not above the smallest budget.
  virtual int64_t lowerBound(const ModelGraph &model, MemoryBudgetsRef budgets) const = 0;
};

/// By pipeline rank: upper bound of its memory. Among the tensor-parallel ranks of
/// CutMemory::fullestRankCandidates, the largest device counts, since a cut that does not fit there fits
/// nowhere. Among data-parallel ranks, which hold the same, the smallest device counts.
MemoryBudgets largestBudgets(const CutMemory &memory, const Machine &machine, uint32_t ranks,
                             uint32_t tensorParallelSize, uint32_t dataParallelSize = 1);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MEMORY_CUTMEMORY_H
