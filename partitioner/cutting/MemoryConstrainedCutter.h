//===- MemoryConstrainedCutter.h - Cuts for devices with little memory -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_MEMORYCONSTRAINEDCUTTER_H
#define CLEAVE_PARTITIONER_CUTTING_MEMORYCONSTRAINEDCUTTER_H

#include "partitioner/cutting/CutCache.h"
#include "partitioner/memory/CutMemory.h"

namespace cleave {

/// Cuts along program order alone: exact cuts of hundreds of operators take a second each.
inline constexpr SearchLimits kProgramOrder{/*downsets=*/0, /*work=*/0};

/// … and of exact cuts within limits that differ from stage to stage: a search sees little then that it need
/// not follow.
inline constexpr uint64_t kStepsWithin = 10'000'000;

/// False: no cut has room.
bool mayFit(const CutMemory &memory, const ModelGraph &model, MemoryBudgetsRef budgets);

/// Cuts along program order whose ranks have room for what they hold.
class MemoryConstrainedCutter {
public:
  /// All must outlive it.
  /// \param request  limits of weights are left out.
  /// \param budgets    of ranks, among which stages are dealt out in turn.
  /// \param cuts     of the model's graph.
  MemoryConstrainedCutter(const ModelGraph &model, CutRequest request, MemoryBudgets budgets,
                          const CutMemory &memory, CutCache &cuts)
      : model(model), memory(memory), cuts(cuts), exactLimits(request.limits), request(std::move(request)),
        budgets(std::move(budgets)) {
    this->request.limits = kProgramOrder;
  }

  struct Fitted {
    /// By stage: with these, and so many steps, the cut is this one.
    std::vector<int64_t> weightLimits;
    /// None: along program order.
    uint64_t steps = 0;
    /// One of the known cuts. Null where none was found; the limits are then the last that were tried.
    const StageCut *cut = nullptr;
  };
  /// The fastest cut first; where ranks have no room for what they hold of it, the fastest one whose weights
  /// leave room for what is beside them in the one before, and so on.
  Fitted fit() const { return fit(budgets); }

  /// A cut, and what the devices hold of it that have least.
  struct Least {
    int64_t bytes;
    Fitted fitted;
  };
  /// The one for which these devices need least memory, beside the others with what they have: by bisection
  /// to a 256th, as if there were one for all larger memories, too, and from there on as long as a byte less
  /// has one, exact cuts among them. Nothing where no memory is enough. What these devices have is no matter.
  std::optional<Least> leastBudget() const;
  /// Of that at the least, as far as it can be told without a cut.
  int64_t leastBound() const { return memory.least(model, othersBudgets()); }

private:
  Fitted fit(MemoryBudgetsRef budgets) const;
  /// … or the exact cut within the limits that were tried last, or with room for weights alone.
  Fitted fitInAnyOrder(MemoryBudgetsRef budgets) const;
  Fitted exactWithin(MemoryBudgetsRef budgets, std::vector<int64_t> weightLimits, uint64_t steps) const;
  std::vector<int64_t> budgetsOfStages(MemoryBudgetsRef budgets) const;
  MemoryBudgets othersBudgets() const;
  std::vector<int64_t> weightBudgets(const StageCut &cut, llvm::ArrayRef<RankMemory> held,
                                     MemoryBudgetsRef budgets) const;

  const ModelGraph &model;
  const CutMemory &memory;
  CutCache &cuts;
  const SearchLimits exactLimits;
  CutRequest request;
  MemoryBudgets budgets;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_MEMORYCONSTRAINEDCUTTER_H
