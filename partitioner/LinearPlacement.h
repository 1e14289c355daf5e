//===- LinearPlacement.h - Placements along linear orders -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_LINEARPLACEMENT_H
#define CLEAVE_PARTITIONER_LINEARPLACEMENT_H

#include "partitioner/PlacementSearch.h"
#include <optional>

namespace cleave {

/// A placement along a linear order: depth first, breadth first, or by what fills accelerators. The best of
/// these as far as `work` goes, which is lowered by what was done; whatever is left of it, there is one where
/// there are CPUs, or where accelerators filled in one of these orders hold everything.
std::optional<PlacementFound> linearise(const ColourGraph &graph, const DeviceCounts &devices,
                                        double lowerBound, uint64_t &work);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_LINEARPLACEMENT_H
