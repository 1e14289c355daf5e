//===- Buckets.h - Which ranks sum which gradients --------------*- C++ -*-===//
//
// Private to codegen/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_BUCKETS_H
#define CLEAVE_CODEGEN_BUCKETS_H

#include "codegen/plan/Plan.h"
#include <map>
#include <set>
#include <string>

namespace cleave {

/// A sum over a step.
struct StepSum {
  /// The stages that add to it or read it. Stages on the same pipeline rank use the same state.
  std::set<uint32_t> stages;
  /// Programs of the phase Norm add to it, from sums over data-parallel ranks.
  bool isOfNorm = false;
};

/// The sums of a plan, by name.
struct StepSums {
  /// The first of the sum's stages that is on the pipeline rank of `stage`: the stage of their state.
  uint32_t ownerOf(const std::string &name, uint32_t stage) const;
  /// The name of that state: the sum's own, or `NAME@STAGE` where several pipeline ranks have one, with
  /// `train.` in front if it is taken.
  const std::string &stateOf(const std::string &name, uint32_t stage) const;
  /// Chooses the names of all states. Call it once `byName` is complete. \param taken  names of other states.
  void nameStates(std::set<std::string> taken);

  std::map<std::string, StepSum> byName;
  uint32_t pipelineRanks = 1;

private:
  /// By sum and stage of the state.
  std::map<std::pair<std::string, uint32_t>, std::string> states;
};

/// Adds the buckets of a plan whose states are all there: one for each sum of several pipeline ranks, over a
/// Tied group, then one for each stage's sums over its Data groups.
void addBuckets(plan::Plan &plan, const StepSums &sums);

} // namespace cleave

#endif // CLEAVE_CODEGEN_BUCKETS_H
