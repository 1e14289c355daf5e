//===- ValidateStates.cpp - Checks of states, groups and buckets ----------===//
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/Groups.h"
#include "codegen/plan/ValidateParts.h"
#include "llvm/ADT/StringSet.h"
#include <set>

namespace cleave::plan {

using llvm::Error;
using llvm::Twine;

//===- States -------------------------------------------------------------===//

static Error checkStateShards(const Plan &plan, const Twine &where, const State &state) {
  if (state.shards.empty())
    return Error::success();
  if (hasNull(state.shards) || state.shards.size() != plan.mesh->tp || !state.type->ranked)
    return invalid(where, "parts for " + Twine(state.shards.size()) + " tp ranks of a state, expected " +
                              Twine(plan.mesh->tp) + " of a state of known rank");
  const std::vector<int64_t> sizes = knownSizes(*state.type);
  for (auto [tpRank, shard] : llvm::enumerate(state.shards)) {
    if (shard->tp_rank != tpRank)
      return invalid(where, "the part of tp rank " + Twine(tpRank) + " is that of " + Twine(shard->tp_rank));
    if (Error error = partShape(where, sizes, shard->ranges).takeError())
      return error;
  }
  return Error::success();
}

/// A sum over a step is created as zeros, so its shape and dtype must be known. A state has a batch dimension
/// if and only if its scope is Sequence.
static Error checkScope(const Twine &where, const State &state) {
  if (state.scope > StateScope::MAX)
    return invalid(where, "its scope is unknown");
  if (state.length_dim != -1 || state.capacity)
    return invalid(where, "it grows along a dimension, which this version does not run");
  const std::vector<int64_t> sizes = knownSizes(*state.type);
  if (state.scope == StateScope::Step && (!state.type->ranked || state.type->dtype == DType::Unknown ||
                                          llvm::any_of(sizes, [](int64_t size) { return size < 0; })))
    return invalid(where, "it is a sum over a step, but its type is not known");
  const int64_t rank = state.type->dims.size();
  if (state.batch_dim < -1 || state.batch_dim >= rank)
    return invalid(where, "its batch dimension is " + Twine(state.batch_dim) + ", it has " + Twine(rank));
  if ((state.batch_dim >= 0) != (state.scope == StateScope::Sequence))
    return invalid(where, "a state has rows for the batch if it lasts for sequences, and only then");
  if (state.batch_dim >= 0 && sizes[state.batch_dim] >= 0)
    return invalid(where, "it has " + Twine(sizes[state.batch_dim]) +
                              " rows, expected a number that each sequence decides");
  return Error::success();
}

Error checkStates(const Plan &plan) {
  if (hasNull(plan.states))
    return invalid("states", "an entry is missing");
  llvm::StringSet<> names;
  for (const auto &state : plan.states) {
    if (Error error = checkName("states", state->name))
      return error;
    const std::string where = "state '" + state->name + "'";
    if (!names.insert(state->name).second)
      return invalid("states", "there are two '" + state->name + "'");
    if (Error error = checkType(where, state->type.get(), {}))
      return error;
    if (state->stage >= plan.stages.size())
      return invalid(where, "of stage " + Twine(state->stage) + ", which is not there");
    if (Error error = checkScope(where, *state))
      return error;
    if (Error error = checkStateShards(plan, where, *state))
      return error;
  }
  return Error::success();
}

//===- Groups -------------------------------------------------------------===//

/// Ranks of one position in distinct device groups.
static Error checkTiedGroup(const Plan &plan, const Twine &where, const Group &group) {
  const uint32_t width = ranksPerDeviceGroup(plan);
  if (group.ranks.size() < 2)
    return invalid(where, "it has less than two ranks");
  for (auto [index, rank] : llvm::enumerate(group.ranks)) {
    if (rank >= rankCount(*plan.mesh))
      return invalid(where, "rank " + Twine(rank) + " is not in the mesh");
    if (index > 0 && (rank <= group.ranks[index - 1] || rank % width != group.ranks[0] % width))
      return invalid(where, "rank " + Twine(rank) +
                                " is no later one, or has another place among the ranks of its stages");
  }
  return Error::success();
}

Error checkGroups(const Plan &plan) {
  if (hasNull(plan.groups))
    return invalid("groups", "an entry is missing");
  const auto expected = groupsOf(*plan.mesh);
  if (plan.groups.size() < expected.size())
    return invalid("groups", "there are " + Twine(plan.groups.size()) + ", the axes of the mesh have " +
                                 Twine(expected.size()));
  std::set<std::vector<uint32_t>> tied;
  for (auto [index, group] : llvm::enumerate(plan.groups)) {
    const std::string where = "group " + std::to_string(index);
    if (index < expected.size()) {
      if (group->axis != expected[index]->axis || group->ranks != expected[index]->ranks)
        return invalid(where, "it is none of the axis of the mesh that is expected there");
      continue;
    }
    if (group->axis != Axis::Tied)
      return invalid(where, "it is of no axis, or one more than the mesh has along its axis");
    if (Error error = checkTiedGroup(plan, where, *group))
      return error;
    if (!tied.insert(group->ranks).second)
      return invalid(where, "another tie has the same ranks");
  }
  return Error::success();
}

//===- Buckets ------------------------------------------------------------===//

/// Bounds the work of the schedule's check.
static constexpr size_t kMaxBuckets = 4096, kMaxBucketRanks = size_t(1) << 22;

static Error checkBucketParts(const Plan &plan, const Twine &where, const Bucket &bucket) {
  std::set<uint32_t> pipelineRanks;
  for (const auto &part : bucket.parts) {
    if (part->stage >= plan.stages.size() || part->states.empty() ||
        !pipelineRanks.insert(pipelineRankOf(plan, part->stage)).second)
      return invalid(where, "a part has no states, is of a stage that is not there, or of one on the rank of "
                            "another part");
    if (part->states.size() != bucket.parts.front()->states.size())
      return invalid(where, "its parts have different numbers of states");
    for (auto [state, first] : llvm::zip(part->states, bucket.parts.front()->states)) {
      if (state >= plan.states.size() || plan.states[state]->stage != part->stage ||
          plan.states[state]->scope != StateScope::Step)
        return invalid(where,
                       "state " + Twine(state) + " is no sum over a step in stage " + Twine(part->stage));
      const TensorType &own = *plan.states[state]->type, &other = *plan.states[first]->type;
      if (own.dtype != other.dtype || knownSizes(own) != knownSizes(other))
        return invalid(where, "states " + Twine(first) + " and " + Twine(state) + " have different types");
    }
  }
  if (bucket.axis == Axis::Data ? bucket.parts.size() != 1 : bucket.parts.size() < 2)
    return invalid(where, "it has " + Twine(bucket.parts.size()) +
                              " parts, expected one along Data, and one for each of several stages of a tie");
  return Error::success();
}

/// Each rank of the parts' stages must be in one of the groups, and each group must have one rank of each
/// part: of all data-parallel ranks where the part is one.
static Error checkBucketGroups(const Plan &plan, const Twine &where, const Bucket &bucket) {
  std::set<uint32_t> ranks, grouped;
  for (const auto &part : bucket.parts)
    ranks.insert(plan.stages[part->stage]->ranks.begin(), plan.stages[part->stage]->ranks.end());
  for (uint32_t index : bucket.groups) {
    if (index >= plan.groups.size() || plan.groups[index]->axis != bucket.axis)
      return invalid(where, "group " + Twine(index) + " is not there, or of another axis");
    if (bucket.axis == Axis::Tied && plan.groups[index]->ranks.size() != bucket.parts.size())
      return invalid(where, "group " + Twine(index) + " has other ranks than its parts");
    for (uint32_t rank : plan.groups[index]->ranks)
      if (!ranks.count(rank) || !grouped.insert(rank).second)
        return invalid(where, "rank " + Twine(rank) + " has no part, or is in two groups");
  }
  return grouped == ranks ? Error::success() : invalid(where, "a rank of its stages is in no group");
}

Error checkBuckets(const Plan &plan) {
  if (plan.buckets.size() > kMaxBuckets)
    return invalid("buckets",
                   "there are " + Twine(plan.buckets.size()) + ", expected at most " + Twine(kMaxBuckets));
  // By axis: what is summed along it, which must happen once.
  std::set<std::pair<Axis, uint32_t>> summed;
  std::set<uint32_t> grouped;
  size_t ranks = 0;
  for (auto [index, bucket] : llvm::enumerate(plan.buckets)) {
    const std::string where = "bucket " + std::to_string(index);
    if (!bucket || hasNull(bucket->parts) || (bucket->axis != Axis::Data && bucket->axis != Axis::Tied))
      return invalid(where, "it or a part is missing, or it is of an axis that is neither Data nor Tied");
    if (Error error = checkBucketParts(plan, where, *bucket))
      return error;
    for (const auto &part : bucket->parts)
      ranks += plan.stages[part->stage]->ranks.size();
    if (ranks > kMaxBucketRanks)
      return invalid(where,
                     "the buckets up to here have more than " + Twine(kMaxBucketRanks) + " ranks in all");
    if (Error error = checkBucketGroups(plan, where, *bucket))
      return error;
    grouped.insert(bucket->groups.begin(), bucket->groups.end());
    for (const auto &part : bucket->parts)
      for (uint32_t state : part->states)
        if (!summed.insert({bucket->axis, state}).second)
          return invalid(where, "state '" + plan.states[state]->name + "' is summed twice along one axis");
  }
  for (auto [index, group] : llvm::enumerate(plan.groups))
    if (group->axis == Axis::Tied && !grouped.count(index))
      return invalid("group " + Twine(index), "no bucket sums over this tie");
  return Error::success();
}

} // namespace cleave::plan
