//===- Batch.cpp - The dimension that micro-batches split -----------------===//
#include "codegen/plan/Batch.h"
#include "codegen/plan/Schedule.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace cleave::plan {

static bool dependsOn(const DimExpr &dim, uint32_t symbol) {
  return llvm::any_of(dim.terms, [&](const auto &term) { return llvm::is_contained(term->symbols, symbol); });
}

static bool isProportional(const DimExpr &dim, uint32_t symbol) {
  return dim.divisor == 1 &&
         llvm::all_of(dim.terms, [&](const auto &term) { return llvm::count(term->symbols, symbol) == 1; });
}

std::optional<uint32_t> batchDimension(const TensorType &type, uint32_t symbol) {
  for (uint32_t dim = 0; dim < type.dims.size(); ++dim)
    if (dependsOn(*type.dims[dim], symbol))
      return dim;
  return std::nullopt;
}

bool isSplittable(const TensorType &type, uint32_t symbol) {
  auto dependent = [&](const auto &dim) { return dependsOn(*dim, symbol); };
  if (!type.ranked || llvm::any_of(type.dims, [](const auto &dim) { return dim->divisor == 0; }))
    return false;
  auto found = llvm::find_if(type.dims, dependent);
  return found == type.dims.end() ||
         (isProportional(**found, symbol) && llvm::count_if(type.dims, dependent) == 1);
}

uint64_t microbatchesOfAll(const Plan &plan, const Schedule &schedule) {
  return uint64_t(schedule.microbatches) * plan.mesh->dp;
}

uint64_t globalMicrobatch(const Plan &plan, uint32_t rank, uint32_t microbatch) {
  return uint64_t(microbatch) * plan.mesh->dp + dpRankOf(plan, rank);
}

std::pair<int64_t, int64_t> samplesOf(int64_t batch, uint32_t count, uint32_t index) {
  auto begin = [&](int64_t i) { return i * (batch / count) + std::min<int64_t>(i, batch % count); };
  return {begin(index), begin(index + 1)};
}

} // namespace cleave::plan
