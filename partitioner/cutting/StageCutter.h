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
  /// By stage.
  std::vector<StageDevice> stages = std::vector<StageDevice>(1);
  /// Nodes that must begin a stage (`--stage-before`), ascending; at most stages - 1 of them. Nodes before
  /// such a node in program order are in earlier stages than it, nodes after it are in its stage or later.
  std::vector<uint32_t> stageStarts;
  /// Number of stages on each rank, for the advice in error messages.
  uint32_t stagesPerRank = 1;
  /// By default, about a second of search.
  SearchLimits limits = {/*downsets=*/200000, /*work=*/100000000};
  bool operator==(const CutRequest &) const = default;
};

struct StageCut : SearchProof {
  /// By node: its stage. No edge goes to an earlier stage, and no stage is empty.
  std::vector<uint32_t> stageOf;
  /// By stage: compute seconds plus the seconds to receive its inputs.
  std::vector<double> seconds;
  std::vector<int64_t> weightBytes;
  std::vector<int64_t> recvBytes;
  /// Lower bound of the slowest stage's seconds over all contiguous cuts. If the cut is exact, its own
  /// slowest stage; otherwise the maximum of the slowest node and of (total work / total rate of the devices)
  /// (NormalizedWork in DeviceRow.h).
  double lowerBound = 0;
  /// A node that alone exceeds a balanced stage's share of the work, so that no balanced cut exists; nothing
  /// if there is none.
  std::optional<uint32_t> bottleneck;
  /// Weight limits for which the search gives the same cut, bit by bit, if all stages of the request have one
  /// limit in common. If stages have different limits, only one fact is valid: tooLarge == kNoLimit means
  /// that no cut was refused for its weights.
  LimitRange weightLimitRange;
  /// Maximum of `seconds`.
  double slowest() const;
  /// Mean of `seconds`.
  double mean() const;
};

/// Finds the contiguous cut with the fastest slowest stage. In a contiguous cut no edge goes to an earlier
/// stage; stages need not be intervals of program order. The best cut along program order wins unless another
/// cut's slowest stage is faster by more than 1e-9 of it. Ties go to the most even cut, by the sum of squared
/// seconds, then to the one whose last stage begins first.
///
/// A stage costs the seconds of its nodes, plus `latency + bytes / bandwidth` if it receives anything. A
/// value counts once per receiving stage, whichever earlier stage made it. The latency counts once per stage,
/// however many stages send to it: the senders depend on earlier cuts, which the cost of a stage must not,
/// and the messages overlap.
///
/// The search is exact, by dynamic programming over the graph's downsets (DownsetSearch.h). Beyond `limits`
/// it gives the better of two cuts: program order's best one, O(nodes² · stages) at worst, and the best one
/// of a graph whose connected nodes were merged, which has fewer downsets. Where nodes times stages exceed
/// kMaxSearchStates, neighbours in program order are merged first.
///
/// \param graph    in topological order: no consumer stands before its producer. Seconds and bytes are >= 0.
/// \param request  its `stageStarts` are nodes of the graph.
/// \returns an error if there are fewer nodes than stages, or no cut meets the weight limits or the fixed
/// starts; the message suggests what to change.
llvm::Expected<StageCut> cutStages(const StageGraph &graph, const CutRequest &request);

/// Costs of a cut by their definition, from nodes and values: `seconds`, `weightBytes` and `recvBytes`.
StageCut describeCut(const StageGraph &graph, const CutRequest &request, std::vector<uint32_t> stageOf);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_STAGECUTTER_H
