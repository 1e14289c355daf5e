//===- LinearPlacement.h - Placements along linear orders -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_LINEARPLACEMENT_H
#define CLEAVE_PARTITIONER_CUTTING_LINEARPLACEMENT_H

#include "partitioner/cutting/DownsetSearch.h"

namespace cleave {

/// The best placement along `order`, a topological order of all groups, if its maxLoad is below `bound`.
/// \param work         remaining budget of work (SearchLimits::work); reduced by the work that was done.
/// \param mayEndEarly  obey CancellationScope; the remaining work is then 0.
std::optional<DeviceAssignment> searchAlong(llvm::ArrayRef<uint32_t> order, const GroupGraph &graph,
                                            const DeviceRow &devices, double lowerBound, double bound,
                                            uint64_t &work, bool mayEndEarly = false);

/// The best placement along a few linear orders: depth first, breadth first, and one that fills accelerators.
/// Ends when `work` is used up or CancellationScope asks for it. A placement is always found if there are
/// CPUs, or if accelerators filled along one of these orders hold all groups.
/// \param work  remaining budget of work; reduced by the work that was done.
std::optional<DeviceAssignment> linearise(const GroupGraph &graph, const DeviceRow &devices,
                                          double lowerBound, uint64_t &work);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_LINEARPLACEMENT_H
