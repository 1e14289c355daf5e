//===- DownsetLattice.h - The downsets of a DAG -----------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_DOWNSETLATTICE_H
#define CLEAVE_PARTITIONER_CUTTING_DOWNSETLATTICE_H

#include "partitioner/graph/GroupGraph.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace cleave {

/// Downsets (ideals): sets of groups that hold every predecessor of what they hold. Number 0 is the empty
/// one, the last is everything, and a set's number is larger than those of its subsets.
class DownsetLattice {
public:
  /// From one downset to the next larger ones.
  struct Step {
    /// What is added.
    uint32_t group;
    uint32_t target;
    /// The first of the target's steps that adds a later group, as an index into `steps`.
    uint32_t later = 0;
  };

  /// All downsets, or nothing when there are more than `most` or they take too much memory.
  static std::optional<DownsetLattice> all(const GroupGraph &graph, uint64_t most);
  /// Only the beginnings of `order`, which has each group once and is topological.
  static DownsetLattice chain(llvm::ArrayRef<uint32_t> order);

  uint32_t size() const { return firstSteps.size() - 1; }
  /// All steps, by where they start, then by group.
  llvm::ArrayRef<Step> steps() const { return allSteps; }
  /// The index of the first step from `downset`; they go to that of the next one.
  uint32_t firstStep(uint32_t downset) const { return firstSteps[downset]; }
  /// Each but the last one has one step.
  bool isChain() const { return allSteps.size() + 1 == size(); }
  /// A subset by one step, in `target`, and what it lacks; not of the empty downset.
  Step below(uint32_t downset) const { return down[downset]; }

private:
  friend class DownsetEnumeration;
  DownsetLattice() = default;
  std::vector<Step> allSteps;
  /// One more than there are downsets.
  std::vector<uint32_t> firstSteps;
  std::vector<Step> down;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_DOWNSETLATTICE_H
