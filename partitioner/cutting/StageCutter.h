//===- StageCutter.h - Cutting a DAG into pipeline stages -------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_STAGECUTTER_H
#define CLEAVE_PARTITIONER_CUTTING_STAGECUTTER_H

#include "partitioner/graph/LimitRange.h"
#include "partitioner/graph/SearchLimits.h"
#include "partitioner/graph/StageGraph.h"
#include "partitioner/machine/StageDevice.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace cleave {

struct CutRequest {
  /// One a stage.
  std::vector<StageDevice> stages = std::vector<StageDevice>(1);
  /// Nodes that begin a stage (`--stage-before`), ascending; the stage count must allow them. What precedes
  /// such a node in program order is in earlier stages than it, and what follows is in none of these.
  std::vector<uint32_t> stageStarts;
  /// On the devices of one rank, among which the stages are dealt out: what an error advises to change.
  uint32_t stagesOfRank = 1;
  /// About a second of search.
  SearchLimits limits = {/*downsets=*/200000, /*work=*/100000000};
  bool operator==(const CutRequest &) const = default;
};

struct StageCut : SearchProof {
  /// Stage of each node; no edge goes to an earlier stage, no stage is empty.
  std::vector<uint32_t> stageOf;
  /// Per stage: compute plus receiving its inputs.
  std::vector<double> seconds;
  std::vector<int64_t> weightBytes;
  std::vector<int64_t> recvBytes;
  /// No contiguous cut makes the slowest stage faster than this: what it takes where the cut is exact,
  /// otherwise the largest node, or all work over all devices (SharedWork in DownsetSearch.h).
  double lowerBound = 0;
  /// The node that alone exceeds a balanced stage's share of the work, so that no balanced cut exists;
  /// nothing otherwise.
  std::optional<uint32_t> bottleneck;
  /// The weight limits with which the cut is this one, to the bit, for requests that give all stages the same
  /// limit. Of others it says only whether cuts were refused for their weights: tooLarge is kNoLimit if none.
  LimitRange weightLimits;
  /// Of `seconds`.
  double slowest() const;
  /// Of `seconds`.
  double mean() const;
};

/// The contiguous cut whose slowest stage is fastest: any in which no edge goes to an earlier stage, whether
/// or not stages are intervals of program order. Program order's best cut, unless another one's slowest stage
/// is faster (by more than 1e-9 of it). Among equals the most even one, by the sum of squared seconds, then
/// the one whose last stage begins first.
///
/// A stage costs its nodes' seconds, plus `latency + bytes/bandwidth` if it receives anything. A value counts
/// once a stage, whichever earlier stage made it. The latency counts once a stage however many stages send to
/// it: who sends depends on the earlier cuts, which a stage's cost must not, and the messages overlap.
///
/// Exact by dynamic programming over the graph's downsets (DownsetSearch.h). Beyond `limits`, the better of
/// program order's best cut, O(nodes² · stages) at worst, and the best one that keeps nodes that hang
/// together together, which have fewer downsets. Where nodes times stages exceed kMostSearchStates, program
/// order's cut keeps neighbours together.
///
/// \param graph    a topological order: no consumer stands before its producer; seconds and bytes are >= 0.
/// \param request  `stageStarts` are nodes of the graph.
/// \returns an error when there are fewer nodes than stages, or no cut meets the weight limits or the fixed
/// starts; the
///          message says what would do.
llvm::Expected<StageCut> cutStages(const StageGraph &graph, const CutRequest &request);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_STAGECUTTER_H
