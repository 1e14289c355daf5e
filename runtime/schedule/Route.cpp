//===- Route.cpp ----------------------------------------------------------===//
#include "runtime/schedule/Route.h"
#include "codegen/plan/Schedule.h"
#include "runtime/device/Placement.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace cleave::runtime {

Route::Route(const plan::Plan &plan, uint32_t signature, llvm::ArrayRef<std::unique_ptr<Rank>> own)
    : plan(plan), transfers(plan::transfers(plan, signature).size() * plan.mesh->dp * plan.mesh->tp) {
  for (auto [place, rank] : llvm::enumerate(own))
    if (rank->takesPart(signature)) {
      places.push_back(place);
      ranks.push_back(rank->number());
      readsInputs |= runtime::readsInputs(plan, rank->number(), signature);
    }
}

std::shared_ptr<Exchange> Route::connect(uint32_t microbatches, Patience &patience) const {
  const uint32_t ofEach = llvm::divideCeil(microbatches, plan.mesh->dp);
  return std::make_shared<LocalExchange>(ranks, plan.mesh->tp, transfers, ofEach, patience);
}

} // namespace cleave::runtime
