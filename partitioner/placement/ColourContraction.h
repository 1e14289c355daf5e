//===- ColourContraction.h - Contraction of a placement problem -*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_PLACEMENT_COLOURCONTRACTION_H
#define CLEAVE_PARTITIONER_PLACEMENT_COLOURCONTRACTION_H

#include "partitioner/graph/GroupGraph.h"
#include "partitioner/placement/Placement.h"

namespace cleave {

/// The input of the search: groups of nodes that share a device, in topological order of the forward graph,
/// and the costs of crossing devices.
///
/// Preprocessing of Tarnawski et al. 2020, section 5.1 (Placement.h): each colour is contracted to one group.
/// A colour with backward nodes only is ordered by its backward edges, reversed. Strongly connected colours
/// of the forward graph are fused. Groups that take no time join the neighbour that they depend on, but only
/// if this can never be worse: the group has no other neighbour, each value that it makes or reads belongs to
/// that neighbour, too, and it takes no memory where memory is short. The optimum is therefore that of the
/// problem.
GroupGraph contract(const PlacementProblem &problem);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_PLACEMENT_COLOURCONTRACTION_H
