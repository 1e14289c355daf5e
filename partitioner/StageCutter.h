//===- StageCutter.h - Cutting a DAG into pipeline stages -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_STAGECUTTER_H
#define CLEAVE_PARTITIONER_STAGECUTTER_H

#include "partitioner/StageGraph.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace cleave {

struct CutRequest {
  uint32_t stages = 1;
  Link link;
  /// Bytes of weights one stage may hold; nothing: no limit.
  std::optional<int64_t> weightLimit;
  /// Nodes that must be the first of a stage (`--stage-before`), ascending; the stage count must allow them.
  std::vector<uint32_t> stageStarts;
};

struct StageCut {
  /// Stage of each node; no edge goes to an earlier stage, no stage is empty.
  std::vector<uint32_t> stageOf;
  /// Per stage: compute plus receiving its inputs.
  std::vector<double> seconds;
  std::vector<int64_t> weightBytes;
  std::vector<int64_t> recvBytes;
  /// No cut whatever can make the slowest stage faster than this: the largest node, or the mean.
  double lowerBound = 0;
  /// The node that alone exceeds the mean, so that no balanced cut exists; nothing otherwise.
  std::optional<uint32_t> bottleneck;
  /// Of `seconds`.
  double slowest() const;
  /// Of `seconds`.
  double mean() const;
};

/// The contiguous cut of the node order whose slowest stage is fastest; among equals (to 1e-9 of it), the most
/// even one, by the sum of squared seconds, then the one whose first differing cut is earlier.
///
/// A stage costs its nodes' seconds, plus `latency + bytes/bandwidth` if it receives anything. A value counts
/// once a stage, whichever earlier stage made it. The latency counts once a stage however many stages send to
/// it: who sends depends on the earlier cuts, which an interval's cost must not, and the messages overlap.
///
/// Exact for the given order, by dynamic programming over cut positions: O(nodes² · stages) time at worst,
/// and O(nodes · stages) memory.
///
/// \param graph    a topological order: no consumer stands before its producer; seconds and bytes are >= 0.
/// \param request  `stageStarts` are nodes of the graph, `link.bytesPerSecond` > 0.
/// \returns an error when there are fewer nodes than stages, or no cut meets the weight limit or the fixed
/// starts; the
///          message says the least that would do.
llvm::Expected<StageCut> cutStages(const StageGraph &graph, const CutRequest &request);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_STAGECUTTER_H
