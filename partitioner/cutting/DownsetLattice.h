//===- DownsetLattice.h - The downsets of a DAG -----------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_DOWNSETLATTICE_H
#define CLEAVE_PARTITIONER_CUTTING_DOWNSETLATTICE_H

#include "partitioner/graph/GroupGraph.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace cleave {

/// The lattice of downsets (order ideals): sets of groups that contain all predecessors of their groups.
/// Downset 0 is empty, the last one holds all groups, and the number of a downset is larger than the numbers
/// of its subsets.
class DownsetLattice {
public:
  /// A step from a downset to a larger one with one group more.
  struct Step {
    /// The group that the step adds.
    uint32_t group;
    uint32_t target;
    /// Index into `steps` of the target's first step that adds a later group than this one.
    uint32_t later = 0;
  };

  /// All downsets; nothing if there are more than `most`, or they take too much memory.
  static std::optional<DownsetLattice> all(const GroupGraph &graph, uint64_t most);
  /// Only the prefixes of `order`, a topological order of all groups.
  static DownsetLattice chain(llvm::ArrayRef<uint32_t> order);

  uint32_t size() const { return firstSteps.size() - 1; }
  /// All steps, sorted by the downset that they start from, then by group.
  llvm::ArrayRef<Step> steps() const { return allSteps; }
  /// Index of the first step from `downset`; its last one stands before the first step of `downset + 1`.
  uint32_t firstStep(uint32_t downset) const { return firstSteps[downset]; }
  /// True if every downset but the last one has exactly one step.
  bool isChain() const { return allSteps.size() + 1 == size(); }
  /// For a downset that is not empty: a subset with one group less, in `target`, and the group that it lacks.
  Step below(uint32_t downset) const { return down[downset]; }

private:
  friend class DownsetEnumeration;
  DownsetLattice() = default;
  std::vector<Step> allSteps;
  /// By downset, and one past the last: firstStep.
  std::vector<uint32_t> firstSteps;
  std::vector<Step> down;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_DOWNSETLATTICE_H
