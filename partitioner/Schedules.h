//===- Schedules.h - Schedule generators ------------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SCHEDULES_H
#define CLEAVE_PARTITIONER_SCHEDULES_H

#include "codegen/plan/Schedule.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>

namespace cleave {

/// The forward half of GPipe (Huang et al. 2019), which is all of it for inference: the micro-batches go through the
/// stages one behind the other. For two stages and two micro-batches, in the words of plan::toString:
///
///     rank 0:  F0.0  S0.0>1  F0.1  S0.1>1
///     rank 1:  R1.0<0  F1.0  R1.1<0  F1.1
///
/// With more stages than ranks, stage s is on rank s mod ranks and micro-batches pass in groups of as many as there are
/// ranks, which shortens the wait at both ends (interleaving, Narayanan et al. 2021). For four stages on two ranks:
///
///     rank 0:  F0.0  S0.0>1  F0.1  S0.1>1  R2.0<1  F2.0  R2.1<1  …
///
/// Never deadlocks, even where a send waits for its receive and whatever the transfers are.
///
/// \param ranks      of the pipeline: at most as many as stages.
/// \param transfers  between stages, each from an earlier to a later one and each pair at most once; any order.
/// \param tp         how many ranks, one behind the other, do what one of the pipeline's does: its tensor group.
plan::Schedule gpipe(uint32_t signature, uint32_t stages, uint32_t ranks, uint32_t microbatches,
                     llvm::ArrayRef<plan::Transfer> transfers, uint32_t tp = 1);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SCHEDULES_H
