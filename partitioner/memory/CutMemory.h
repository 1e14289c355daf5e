//===- CutMemory.h - What ranks hold of cuts --------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MEMORY_CUTMEMORY_H
#define CLEAVE_PARTITIONER_MEMORY_CUTMEMORY_H

#include "partitioner/cost/ModelGraph.h"

namespace cleave {

/// Peak memory of a device, in bytes: `weights` of all its stages, and `others`, the most that is alive
/// beside them at one time.
struct RankMemory {
  int64_t weights = 0, others = 0;
  int64_t bytes() const { return weights + others; }
};

/// By rank: bytes of a device; nothing of one that is not limited.
using MemoryBudgets = std::vector<std::optional<int64_t>>;
using MemoryBudgetsRef = llvm::ArrayRef<std::optional<int64_t>>;

/// Where they hold more than they have room for.
std::optional<MemoryShortage> shortageOf(llvm::ArrayRef<RankMemory> ranks, MemoryBudgetsRef budgets);

/// What ranks hold of cuts of one function, at micro-batches of one size. Stage s of a cut is on rank s mod
/// ranks. PlannedMemory predicts it of programs; the interface is virtual because tests of
/// MemoryConstrainedCutter use graphs with synthetic memory and no program.
class CutMemory {
public:
  virtual ~CutMemory() = default;
  /// By rank, of its tensor rank that holds most, as a plan predicts it.
  virtual std::vector<RankMemory> of(const ModelGraph &model, llvm::ArrayRef<uint32_t> stageOf,
                                     uint32_t ranks) const = 0;
  /// Some, of which one holds most.
  virtual std::vector<uint32_t> tensorRanks() const { return {0}; }
  /// Whatever the cut, ranks that have less need so many bytes or more, beside the others with what they
  /// have. No more than the least room: nothing says that they lack any.
  virtual int64_t least(const ModelGraph &model, MemoryBudgetsRef budgets) const = 0;
};

/// Upper bounds of the memory that pipeline ranks have, by rank. Of the tensor-parallel ranks that
/// CutMemory::tensorRanks names, the largest device counts: a cut that does not fit there fits nowhere.
/// Of data ranks, which hold the same, the device that has least.
MemoryBudgets largestBudgets(const CutMemory &memory, const Machine &machine, uint32_t ranks,
                             uint32_t tensorRanks, uint32_t dataRanks = 1);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MEMORY_CUTMEMORY_H
