//===- MemoryConstrainedCutter.cpp - Cuts under memory budgets ------------===//
#include "partitioner/cutting/MemoryConstrainedCutter.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace cleave {

/// More than any device has, and small enough to be summed.
static constexpr int64_t kLargestBudget = int64_t(1) << 60;

/// By stage: limit of its weights if everything else on its rank stays as it is.
std::vector<int64_t> MemoryConstrainedCutter::weightBudgets(const StageCut &cut,
                                                            llvm::ArrayRef<RankMemory> held,
                                                            MemoryBudgetsRef budgets) const {
  std::vector<int64_t> limits;
  for (auto [stage, own] : llvm::enumerate(cut.weightBytes)) {
    const RankMemory &rank = held[stage % budgets.size()];
    const int64_t room = budgets[stage % budgets.size()].value_or(kLargestBudget);
    const int64_t forWeights = std::max<int64_t>(room - rank.activations, 0);
    // Stages of one rank shrink or grow in proportion.
    if (forWeights >= rank.weights)
      limits.push_back(own + (forWeights - rank.weights));
    else
      limits.push_back(int64_t(double(own) / double(rank.weights) * double(forWeights)));
  }
  return limits;
}

/// By stage: the budget of its rank, as a limit of weights.
std::vector<int64_t> MemoryConstrainedCutter::budgetsOfStages(MemoryBudgetsRef budgets) const {
  std::vector<int64_t> limits;
  for (size_t stage = 0; stage < request.stages.size(); ++stage)
    limits.push_back(budgets[stage % budgets.size()].value_or(kLargestBudget));
  return limits;
}

MemoryConstrainedCutter::Fitted MemoryConstrainedCutter::fit(MemoryBudgetsRef budgets) const {
  // Limits follow what the last cut holds. After a few cuts they may only fall, so that the loop ends.
  constexpr int kMaxCuts = 10, kFree = 4;
  Fitted result;
  std::vector<int64_t> next = budgetsOfStages(budgets);
  for (int count = 0; count < kMaxCuts && next != result.weightLimits; ++count) {
    CutRequest tried = request;
    for (auto [stage, limit] : llvm::zip(tried.stages, next))
      stage.weightLimit = limit;
    result.weightLimits = next;
    auto cut = cuts.cut(model.graph, tried);
    if (!cut) {
      consumeError(cut.takeError());
      break;
    }
    const std::vector<RankMemory> held = memory.of(model, (*cut)->stageOf, budgets.size());
    if (!shortageOf(held, budgets)) {
      result.cut = *cut;
      break;
    }
    next = weightBudgets(**cut, held, budgets);
    if (count >= kFree)
      for (auto [limit, before] : llvm::zip(next, result.weightLimits))
        limit = std::min(limit, before);
  }
  return result;
}

MemoryConstrainedCutter::Fitted MemoryConstrainedCutter::exactWithin(MemoryBudgetsRef budgets,
                                                                     std::vector<int64_t> weightLimits,
                                                                     uint64_t work) const {
  CutRequest exact = request;
  exact.limits = {exactLimits.downsets, work};
  for (auto [stage, limit] : llvm::zip(exact.stages, weightLimits))
    stage.weightLimit = limit;
  Fitted result{std::move(weightLimits), work};
  auto cut = cuts.cut(model.graph, exact);
  if (!cut)
    consumeError(cut.takeError());
  else if (!shortageOf(memory.of(model, (*cut)->stageOf, budgets.size()), budgets))
    result.cut = *cut;
  return result;
}

MemoryConstrainedCutter::Fitted MemoryConstrainedCutter::fitInAnyOrder(MemoryBudgetsRef budgets) const {
  Fitted fitted = fit(budgets);
  if (!fitted.cut)
    fitted = exactWithin(budgets, std::move(fitted.weightLimits), kWeightLimitedWork);
  return fitted.cut ? std::move(fitted) : exactWithin(budgets, budgetsOfStages(budgets), exactLimits.work);
}

/// The smallest budget; nothing if no rank is limited.
static std::optional<int64_t> leastOf(MemoryBudgetsRef budgets) {
  std::optional<int64_t> least;
  for (const auto &room : budgets)
    if (room)
      least = std::min(least.value_or(*room), *room);
  return least;
}

bool mayFit(const CutMemory &memory, const ModelGraph &model, MemoryBudgetsRef budgets) {
  const auto least = leastOf(budgets);
  return !least || memory.lowerBound(model, budgets) <= *least;
}

/// The budgets, with 0 for the ranks of the smallest budget.
MemoryBudgets MemoryConstrainedCutter::othersBudgets() const {
  const std::optional<int64_t> least = leastOf(budgets);
  MemoryBudgets others = budgets;
  for (auto &room : others)
    if (room && room == least)
      room = 0;
  return others;
}

static MemoryBudgets atLeast(int64_t least, MemoryBudgets budgets) {
  for (auto &room : budgets)
    if (room)
      room = std::max(*room, least);
  return budgets;
}

std::optional<MemoryConstrainedCutter::MinBudget> MemoryConstrainedCutter::minBudget() const {
  constexpr int64_t kParts = 256;
  constexpr int kMaxExact = 16;
  const MemoryBudgets others = othersBudgets();
  // The bytes held by the ranks of the smallest budget.
  auto heldBy = [&](Fitted fitted) {
    const auto most = shortageOf(memory.of(model, fitted.cut->stageOf, budgets.size()), others);
    return MinBudget{most ? most->bytes : 0, std::move(fitted)};
  };
  Fitted fastest = fit(atLeast(kLargestBudget, others));
  if (!fastest.cut)
    return std::nullopt;
  MinBudget least = heldBy(std::move(fastest));
  int64_t tooLittle = memory.lowerBound(model, others) - 1;
  while (least.bytes - tooLittle > std::max<int64_t>(least.bytes / kParts, 1)) {
    const int64_t middle = tooLittle + (least.bytes - tooLittle) / 2;
    if (Fitted fitted = fit(atLeast(middle, others)); fitted.cut)
      least = heldBy(std::move(fitted));
    else
      tooLittle = middle;
  }
  for (int count = 0; count < kMaxExact; ++count) {
    Fitted less = fitInAnyOrder(atLeast(least.bytes - 1, others));
    if (!less.cut)
      break;
    least = heldBy(std::move(less));
  }
  return least;
}

} // namespace cleave
