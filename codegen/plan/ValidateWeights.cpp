//===- ValidateWeights.cpp - Checks of weights and their files ------------===//
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/SafetensorsHeader.h"
#include "codegen/plan/ValidateParts.h"
#include "llvm/ADT/StringSet.h"
#include <limits>
#include <map>
#include <set>

namespace cleave::plan {

using llvm::Error;
using llvm::StringRef;
using llvm::Twine;

static size_t rankCount(const Plan &plan) {
  return static_cast<size_t>(plan.mesh->pp) * plan.mesh->dp * plan.mesh->tp;
}

//===- Weights ------------------------------------------------------------===//

static Error checkShard(const Twine &where, const Weight &weight, const WeightShard &shard) {
  if (Error error = checkName(where, shard.key))
    return error;
  if (Error error = checkShape(where, weight.dtype, shard.shape))
    return error;
  auto expected = partShape(where, weight.shape, shard.ranges);
  if (!expected)
    return expected.takeError();
  if (shard.shape.size() != weight.shape.size())
    return invalid(where, "it has other dimensions than the weight");
  for (auto [dim, size] : llvm::enumerate(shard.shape))
    if (size != (*expected)[dim])
      return invalid(where, "dimension " + Twine(dim) + " is " + Twine(size) + ", its ranges have " +
                                Twine((*expected)[dim]));
  return Error::success();
}

static Error checkWeight(const Plan &plan, const Weight &weight) {
  std::string where = "weight '" + weight.name + "'";
  if (weight.role > WeightRole::MAX || hasNull(weight.shards))
    return invalid(where, "its role is unknown or a shard is missing");
  if (Error error = checkText(where, weight.style))
    return error;
  if (Error error = checkShape(where, weight.dtype, weight.shape))
    return error;
  if (weight.wrapped_number && !weight.shape.empty())
    return invalid(where, "it is a number with dimensions");
  if (weight.trainable && weight.role != WeightRole::Parameter)
    return invalid(where, "it is trainable, but no parameter");
  std::set<uint32_t> ranks;
  for (const auto &shard : weight.shards) {
    std::string at = where + ", rank " + std::to_string(shard->rank);
    if (shard->rank >= rankCount(plan) || !ranks.insert(shard->rank).second)
      return invalid(at, "there are only " + Twine(rankCount(plan)) + " ranks, or this one has two shards");
    if (Error error = checkShard(at, weight, *shard))
      return error;
  }
  return Error::success();
}

/// Names and aliases of all weights must be distinct.
static Error checkWeightNames(const Plan &plan) {
  llvm::StringSet<> names;
  for (const auto &weight : plan.weights) {
    llvm::SmallVector<StringRef> all = {weight->name};
    llvm::append_range(all, weight->aliases);
    for (StringRef name : all) {
      if (Error error = checkName("weights", name))
        return error;
      if (!names.insert(name).second)
        return invalid("weights", "there are two '" + name + "'");
    }
  }
  return Error::success();
}

Error checkWeights(const Plan &plan) {
  if (hasNull(plan.weights))
    return invalid("weights", "an entry is missing");
  if (Error error = checkWeightNames(plan))
    return error;
  for (const auto &weight : plan.weights)
    if (Error error = checkWeight(plan, *weight))
      return error;
  return Error::success();
}

//===- Files --------------------------------------------------------------===//

/// A name of a file in the plan's own folder that the plan does not use for another purpose.
static Error checkFileName(const Twine &where, StringRef name) {
  if (Error error = checkName(where, name))
    return error;
  if (name.find_first_of("/\\") != StringRef::npos || name == "." || name == ".." || name == kPlanFileName)
    return invalid(where, "its name '" + name + "' is no file name of a shard");
  return Error::success();
}

static Error checkShardFileTable(const Plan &plan) {
  std::set<uint32_t> ranks;
  llvm::StringSet<> names;
  for (const auto &file : plan.shard_files) {
    if (!file || !file->hash)
      return invalid("shard files", "an entry or its checksum is missing");
    std::string where = "shard file of rank " + std::to_string(file->rank);
    if (file->rank >= rankCount(plan) || !ranks.insert(file->rank).second)
      return invalid(where, "there are only " + Twine(rankCount(plan)) + " ranks, or this one has two files");
    if (Error error = checkFileName(where, file->name))
      return error;
    if (!names.insert(file->name).second)
      return invalid(where, "its name '" + file->name + "' is that of another rank's, too");
    if (file->bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return invalid(where, "its length is beyond int64");
  }
  if (ranks.size() != rankCount(plan))
    return invalid("shard files", Twine(ranks.size()) + " files for " + Twine(rankCount(plan)) + " ranks");
  return Error::success();
}

Error checkShardFiles(const Plan &plan) {
  if (Error error = checkShardFileTable(plan))
    return error;
  std::map<uint32_t, uint64_t> room;
  for (const auto &file : plan.shard_files)
    room[file->rank] = file->bytes;
  std::map<uint32_t, llvm::StringSet<>> keys;
  for (const auto &weight : plan.weights)
    for (const auto &shard : weight->shards) {
      std::string where = "weight '" + weight->name + "', rank " + std::to_string(shard->rank);
      if (!keys[shard->rank].insert(shard->key).second)
        return invalid(where, "another weight has the key '" + shard->key + "', too");
      uint64_t bytes = *bytesOf(weight->dtype, shard->shape);
      if (bytes > room[shard->rank])
        return invalid(where, "the shard file is too small for it");
      room[shard->rank] -= bytes;
    }
  return Error::success();
}

} // namespace cleave::plan
