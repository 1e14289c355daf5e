//===- ValidateStates.cpp - Checks of states ------------------------------===//
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/ValidateParts.h"
#include "llvm/ADT/StringSet.h"

namespace cleave::plan {

using llvm::Error;
using llvm::Twine;

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

} // namespace cleave::plan
