//===- CutMemory.cpp - Memory of pipeline ranks under a cut ---------------===//
#include "partitioner/memory/CutMemory.h"
#include <algorithm>

namespace cleave {

MemoryBudgets largestBudgets(const CutMemory &memory, const Machine &machine, uint32_t ranks,
                             uint32_t tensorParallelSize, uint32_t dataParallelSize) {
  MemoryBudgets budgets;
  auto memoryOf = [&](size_t device) {
    return machine.devices[std::min(device, machine.devices.size() - 1)].memoryBytes;
  };
  for (size_t rank = 0; rank < ranks; ++rank) {
    std::optional<int64_t> &room = budgets.emplace_back(0);
    for (uint32_t tpRank : memory.fullestRankCandidates()) {
      std::optional<int64_t> least;
      for (size_t dpRank = 0; dpRank < dataParallelSize; ++dpRank)
        if (const auto bytes = memoryOf((rank * dataParallelSize + dpRank) * tensorParallelSize + tpRank))
          least = std::min(least.value_or(*bytes), *bytes);
      room = room && least ? std::optional(std::max(*room, *least)) : std::nullopt;
    }
  }
  return budgets;
}

std::optional<MemoryShortage> shortageOf(llvm::ArrayRef<RankMemory> ranks, MemoryBudgetsRef budgets) {
  std::vector<int64_t> bytes;
  for (const RankMemory &rank : ranks)
    bytes.push_back(rank.bytes());
  return shortageOf(bytes, budgets);
}

} // namespace cleave
