//===- Batch.h - The dimension that micro-batches split ---------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_BATCH_H
#define CLEAVE_CODEGEN_PLAN_BATCH_H

#include "codegen/plan/Plan.h"
#include <cstdint>
#include <optional>
#include <utility>

namespace cleave::plan {

/// Which dimension of a tensor is a multiple of `symbol`, sample by sample from the outside in; nothing where
/// none is. The type depends on the symbol in no other way (see isSplittable).
std::optional<uint32_t> batchDimension(const TensorType &type, uint32_t symbol);

/// Whether parts of the batch `symbol` are parts of such a tensor: at most one dimension depends on the
/// symbol, and that one in proportion.
bool isSplittable(const TensorType &type, uint32_t symbol);

/// Into how many micro-batches data ranks together cut the batch.
uint64_t microbatchesOfAll(const Plan &plan, const Schedule &schedule);

/// Which of these `rank` means where its actions say `microbatch`. Data ranks take them in turn, so that they
/// share evenly also what does not divide, or is less than there are micro-batches.
uint64_t globalMicrobatch(const Plan &plan, uint32_t rank, uint32_t microbatch);

/// Samples [first, second) of micro-batch `index` of `count`, the larger ones first.
///
/// \param count  1 to `batch`.
std::pair<int64_t, int64_t> samplesOf(int64_t batch, uint32_t count, uint32_t index);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_BATCH_H
