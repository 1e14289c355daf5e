//===- Batch.h - The dimension that micro-batches split ---------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_BATCH_H
#define CLEAVE_CODEGEN_PLAN_BATCH_H

#include "codegen/plan/Plan.h"
#include <cstdint>
#include <optional>
#include <utility>

namespace cleave::plan {

/// The dimension of a tensor that is a multiple of `symbol`, whose outermost (slowest-varying) factor is the
/// samples; nothing if there is none. The type must not depend on the symbol in another way (see
/// isSplittable).
std::optional<uint32_t> batchDimension(const TensorType &type, uint32_t symbol);

/// True if parts of the batch `symbol` are parts of the tensor: at most one dimension depends on the symbol,
/// and is proportional to it.
bool isSplittable(const TensorType &type, uint32_t symbol);

/// Number of micro-batches of all data-parallel ranks together.
uint64_t microbatchesOfAll(const Plan &plan, const Schedule &schedule);

/// Global index of the micro-batch that `rank`'s actions call `microbatch`. Data-parallel ranks take
/// micro-batches in turn, so that shares are balanced also when the batch is not divisible, or has fewer
/// samples than there are micro-batches.
uint64_t globalMicrobatch(const Plan &plan, uint32_t rank, uint32_t microbatch);

/// Samples [first, second) of micro-batch `index` of `count`; larger micro-batches come first.
///
/// \param count  1 to `batch`.
std::pair<int64_t, int64_t> samplesOf(int64_t batch, uint32_t count, uint32_t index);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_BATCH_H
