//===- ValidateGroups.cpp - Checks of groups and buckets ------------------===//
#include "codegen/plan/Groups.h"
#include "codegen/plan/ValidateParts.h"
#include <set>

namespace cleave::plan {

using llvm::Error;
using llvm::Twine;

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
    return invalid("groups", "there are " + Twine(plan.groups.size()) + ", expected at least the mesh's " +
                                 Twine(expected.size()));
  std::set<std::vector<uint32_t>> tied;
  for (auto [index, group] : llvm::enumerate(plan.groups)) {
    const std::string where = "group " + std::to_string(index);
    if (index < expected.size()) {
      if (group->kind != expected[index]->kind || group->ranks != expected[index]->ranks)
        return invalid(where, "it is not the group of the mesh that is expected there");
      continue;
    }
    if (group->kind != GroupKind::Tied)
      return invalid(where, "it is one more than the mesh has, expected the kind Tied");
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
  if (bucket.kind == GroupKind::Data ? bucket.parts.size() != 1 : bucket.parts.size() < 2)
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
    if (index >= plan.groups.size() || plan.groups[index]->kind != bucket.kind)
      return invalid(where, "group " + Twine(index) + " is not there, or of another kind");
    if (bucket.kind == GroupKind::Tied && plan.groups[index]->ranks.size() != bucket.parts.size())
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
  // What groups of each kind sum, which must happen once.
  std::set<std::pair<GroupKind, uint32_t>> summed;
  std::set<uint32_t> grouped;
  size_t ranks = 0;
  for (auto [index, bucket] : llvm::enumerate(plan.buckets)) {
    const std::string where = "bucket " + std::to_string(index);
    if (!bucket || hasNull(bucket->parts) ||
        (bucket->kind != GroupKind::Data && bucket->kind != GroupKind::Tied))
      return invalid(where, "it or a part is missing, or it is of a kind that is neither Data nor Tied");
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
        if (!summed.insert({bucket->kind, state}).second)
          return invalid(where,
                         "state '" + plan.states[state]->name + "' is summed twice over groups of one kind");
  }
  for (auto [index, group] : llvm::enumerate(plan.groups))
    if (group->kind == GroupKind::Tied && !grouped.count(index))
      return invalid("group " + Twine(index), "no bucket sums over this tie");
  return Error::success();
}

} // namespace cleave::plan
