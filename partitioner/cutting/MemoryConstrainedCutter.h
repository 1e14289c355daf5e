//===- MemoryConstrainedCutter.h - Cuts under memory budgets ----*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_MEMORYCONSTRAINEDCUTTER_H
#define CLEAVE_PARTITIONER_CUTTING_MEMORYCONSTRAINEDCUTTER_H

#include "partitioner/cutting/CutCache.h"
#include "partitioner/memory/CutMemory.h"

namespace cleave {

/// Limits for cuts along program order only, since an exact cut of hundreds of operators takes a second.
inline constexpr SearchLimits kProgramOrder{/*downsets=*/0, /*work=*/0};

/// Work budget of an exact cut under weight limits that differ from stage to stage. Such limits prune most of
/// the search.
inline constexpr uint64_t kWeightLimitedWork = 10'000'000;

/// False if no cut can fit the budgets.
bool mayFit(const CutMemory &memory, const ModelGraph &model, MemoryBudgetsRef budgets);

/// Finds cuts along program order whose pipeline ranks fit their memory budgets.
class MemoryConstrainedCutter {
public:
  /// \param model, memory, cuts  must outlive the object.
  /// \param request  its weight limits are ignored.
  /// \param budgets  by pipeline rank; stage s is on pipeline rank s mod their number.
  /// \param cuts     cache of cuts of the model's graph.
  MemoryConstrainedCutter(const ModelGraph &model, CutRequest request, MemoryBudgets budgets,
                          const CutMemory &memory, CutCache &cuts)
      : model(model), memory(memory), cuts(cuts), exactLimits(request.limits), request(std::move(request)),
        budgets(std::move(budgets)) {
    this->request.limits = kProgramOrder;
  }

  struct Fitted {
    /// By stage. A search with these weight limits and this budget of work gives this cut.
    std::vector<int64_t> weightLimits;
    /// SearchLimits::work; 0 for a cut along program order.
    uint64_t work = 0;
    /// Owned by the cache. Null if no cut was found; the limits are then the last ones tried.
    const StageCut *cut = nullptr;
  };
  /// Tries the fastest cut first. Where pipeline ranks exceed their budgets, tries the fastest cut whose
  /// weights leave room for the other memory of the cut before, and so on.
  Fitted fit() const { return fit(budgets); }

  /// A cut, and the bytes that the devices with the smallest budget hold under it.
  struct MinBudget {
    int64_t bytes;
    Fitted fitted;
  };
  /// The cut for which the devices with the smallest budget need least memory, while all other devices keep
  /// their budgets. Found by bisection to a relative precision of 1/256, which assumes that every larger
  /// budget has a cut, too. Then, as long as a cut is found that needs at least one byte less, along program
  /// order or exact, that cut is taken (16 times at most). Nothing if no budget is enough. The present budget
  /// of these devices is ignored.
  std::optional<MinBudget> minBudget() const;
  /// Lower bound of minBudget's bytes that needs no cut.
  int64_t budgetLowerBound() const { return memory.lowerBound(model, othersBudgets()); }

private:
  Fitted fit(MemoryBudgetsRef budgets) const;
  /// fit, then an exact cut within the limits that were tried last, then one limited by weights alone.
  Fitted fitInAnyOrder(MemoryBudgetsRef budgets) const;
  Fitted exactWithin(MemoryBudgetsRef budgets, std::vector<int64_t> weightLimits, uint64_t work) const;
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
