//===- GrowingStage.h - The cost of a stage, node by node -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_GROWINGSTAGE_H
#define CLEAVE_PARTITIONER_GROWINGSTAGE_H

#include "partitioner/StageGraph.h"
#include <cstdint>
#include <vector>

namespace cleave {

/// The interval [start, end) of a graph's nodes as one stage. It takes one node after the other, so that the
/// costs of all intervals with one start take one walk. Every cost here only grows with `end`.
class GrowingStage {
public:
  /// Refers to `graph`, which must outlive it.
  GrowingStage(const StageGraph &graph, const Link &link);

  /// Becomes the empty stage before `node`.
  void startAt(uint32_t node);
  /// Takes the node at `end`.
  void takeNext();

  /// One past the last node taken.
  uint32_t end() const { return last; }
  /// Compute plus receiving.
  double seconds() const { return compute + recvSeconds; }
  /// Of the distinct weights that its nodes read.
  int64_t weightBytes() const { return weights; }
  /// Of the distinct values that its nodes use and earlier stages make.
  int64_t recvBytes() const { return received; }

private:
  void receive(uint32_t value);

  const StageGraph &graph;
  const Link link;
  /// Per node, the values it uses.
  std::vector<std::vector<uint32_t>> uses;
  /// The round in which a value or weight was last counted; a new start opens a new round, so nothing is
  /// cleared.
  std::vector<uint64_t> valueRound, weightRound;
  uint64_t round = 0;

  uint32_t first = 0, last = 0;
  double compute = 0, recvSeconds = 0;
  int64_t weights = 0, received = 0;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_GROWINGSTAGE_H
