//===- RankSet.cpp --------------------------------------------------------===//
#include "runtime/schedule/RankSet.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/Schedule.h"
#include "runtime/device/PlanRanks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace cleave::runtime {

RankSet::RankSet(const plan::Plan &plan, uint32_t signature, llvm::ArrayRef<std::unique_ptr<Rank>> own)
    : plan(plan), transfers(transferCount(plan, signature) * plan.mesh->dp * plan.mesh->tp),
      usesSequences(cleave::usesSequences(plan, signature)) {
  for (auto [index, rank] : llvm::enumerate(own))
    if (rank->takesPart(signature)) {
      localIndices.push_back(index);
      ranks.push_back(rank->number());
      readsInputs |= runtime::readsInputs(plan, rank->number(), signature);
    }
  const bool trains = llvm::any_of(plan.programs, [&](const auto &program) {
    return program->signature == signature && program->phase != plan::Phase::Forward;
  });
  for (auto [index, group] : llvm::enumerate(plan.groups))
    if (trains || group->kind == plan::GroupKind::Tensor)
      groups[index] = group->ranks;
}

std::shared_ptr<Exchange> RankSet::connect(uint32_t microbatches, CancellationToken &cancellation) const {
  const uint32_t ofEach = llvm::divideCeil(microbatches, plan.mesh->dp);
  return std::make_shared<LocalExchange>(ranks.size(), groups, transfers, ofEach, cancellation);
}

} // namespace cleave::runtime
