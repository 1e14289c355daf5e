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

/// By name of a sum over a step: the stages that add to it, each in a state of its own (stateOfSum).
using SumStages = std::map<std::string, std::set<uint32_t>>;

/// The name of a stage's state for a sum: the sum's own, or `NAME@STAGE` where several stages add to it.
std::string stateOfSum(const std::string &name, uint32_t stage, const SumStages &sums);

/// Adds the buckets of a plan whose states are all there: one for each sum of several stages, over a Tied
/// group, then one for each stage's sums over its Data groups.
void addBuckets(plan::Plan &plan, const SumStages &sums);

} // namespace cleave

#endif // CLEAVE_CODEGEN_BUCKETS_H
