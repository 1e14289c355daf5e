//===- LinearPlacement.h - Placements along linear orders -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_LINEARPLACEMENT_H
#define CLEAVE_PARTITIONER_CUTTING_LINEARPLACEMENT_H

#include "partitioner/cutting/DownsetSearch.h"

namespace cleave {

/// The best placement along `order`, which has each group once and is topological, if its maxLoad is below
/// `bound`; as far as `work` goes, which is lowered by what was done.
/// \param mayEndEarly  as CancellationScope says; then nothing is left of the work.
std::optional<DevicesFound> searchAlong(llvm::ArrayRef<uint32_t> order, const GroupGraph &graph,
                                        const DeviceRow &devices, double lowerBound, double bound,
                                        uint64_t &work, bool mayEndEarly = false);

/// A placement along a linear order: depth first, breadth first, or by what fills accelerators. The best of
/// these as far as `work` goes, which is lowered by what was done, or as CancellationScope says; whatever is
/// left of it, there is one where there are CPUs, or where accelerators filled in one of these orders hold
/// everything.
std::optional<DevicesFound> linearise(const GroupGraph &graph, const DeviceRow &devices, double lowerBound,
                                      uint64_t &work);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_LINEARPLACEMENT_H
