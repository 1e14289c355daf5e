//===- ColourContraction.h - A placement problem, contracted ----*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_PLACEMENT_COLOURCONTRACTION_H
#define CLEAVE_PARTITIONER_PLACEMENT_COLOURCONTRACTION_H

#include "partitioner/graph/GroupGraph.h"
#include "partitioner/placement/Placement.h"

namespace cleave {

/// What of a placement problem matters to the search: groups of nodes that share a device, in topological
/// order of the forward graph, and what crossing costs.
///
/// The published preparation: colours are contracted, a colour of backward nodes only takes its place by its
/// backward edges turned around, strongly connected colours of the forward graph are fused, and groups that
/// take no time join the neighbour they hang on. The last only where it can never be worse, so that the
/// optimum stays that of the problem: the group has no other neighbour, each value that it makes or reads is
/// one of that neighbour, too, and it takes no room where room is short.
GroupGraph contract(const PlacementProblem &problem);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_PLACEMENT_COLOURCONTRACTION_H
