//===- InspectJson.cpp - A plan as one JSON object ------------------------===//
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/OperatorName.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/Safetensors.h"
#include "codegen/plan/ValidateParts.h"
#include "codegen/plan/WitnessedRange.h"
#include "ir/Schemas.h"
#include "tools/cleave/inspect/Inspect.h"
#include "tools/cleave/text/Candidates.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

namespace cleave {

using namespace plan;
namespace json = llvm::json;

/// Applies `make` to each entry.
template <typename Range, typename Function> static json::Array toArray(const Range &range, Function make) {
  json::Array array;
  for (const auto &entry : range)
    array.push_back(make(entry));
  return array;
}

static json::Array toArray(llvm::ArrayRef<int64_t> sizes) { return json::Array(sizes); }

/// Numbers for fixed sizes, the user's names for others; null when the rank is unknown.
static json::Value shapeOf(const Signature &signature, const TensorType &type) {
  if (!type.ranked)
    return nullptr;
  json::Array shape;
  for (auto [dim, text] : llvm::zip(type.dims, dimensionsOf(signature, type))) {
    std::optional<int64_t> constant = asConstant(*dim);
    shape.push_back(constant ? json::Value(*constant) : json::Value(text));
  }
  return shape;
}

static json::Object describe(const Plan &plan, const Signature &signature, uint32_t index) {
  const Schedule &schedule = scheduleOf(plan, index);
  auto symbol = [](const auto &entry) {
    json::Object object{{"name", entry->name},
                        {"traced", entry->traced},
                        {"divisible_by", entry->divisible_by},
                        {"min", entry->min},
                        // Their names in 0.1, until 0.3.
                        {"multiple", entry->divisible_by},
                        {"least", entry->min}};
    if (entry->max != Symbol().max)
      object["max"] = object["most"] = entry->max;
    if (auto range = witnessedRange(*entry)) {
      json::Object witnessed{{"min", range->min}, {"divisible_by", range->divisibleBy}};
      if (range->max != WitnessedRange::kNoLimit)
        witnessed["max"] = range->max;
      object["witnessed"] = std::move(witnessed);
    }
    return object;
  };
  auto input = [&](const auto &entry) {
    return json::Object{{"name", entry->name},
                        {"role", entry->role},
                        {"dtype", nameOf(entry->type->dtype)},
                        {"shape", shapeOf(signature, *entry->type)}};
  };
  auto output = [&](const auto &entry) {
    return json::Object{{"name", entry->name},
                        {"stage", entry->stage},
                        {"dtype", nameOf(entry->type->dtype)},
                        {"shape", shapeOf(signature, *entry->type)}};
  };
  return json::Object{{"name", signature.name},
                      {"symbols", toArray(signature.symbols, symbol)},
                      {"inputs", toArray(signature.inputs, input)},
                      {"outputs", toArray(signature.outputs, output)},
                      {"schedule", schedule.name},
                      {"microbatches", schedule.microbatches},
                      {"slices", schedule.slices}};
}

static json::Array describeStages(const Plan &plan) {
  std::vector<int64_t> weightBytes = weightBytesOfStages(plan);
  std::vector<std::vector<ModuleShare>> modules = modulesOfStages(plan);
  auto module = [](const ModuleShare &share) {
    return json::Object{{"path", share.path}, {"ops", share.ops}, {"weight_bytes", share.weightBytes}};
  };
  auto device = [&](uint32_t rank) { return deviceOf(plan, rank); };
  return toArray(plan.stages, [&](const auto &stage) {
    json::Object object{{"index", stage->index},
                        {"module_paths", json::Array(stage->module_paths)},
                        {"modules", toArray(modules[stage->index], module)},
                        {"ops", stage->ops},
                        {"devices", toArray(stage->ranks, device)},
                        {"weight_bytes", weightBytes[stage->index]}};
    const Prediction *prediction = predictionOf(plan, stage->index);
    auto predicted = [&](auto member) {
      return prediction ? json::Value(prediction->*member) : json::Value(nullptr);
    };
    object["predicted_seconds"] = predicted(&Prediction::seconds);
    object["predicted_flops"] = predicted(&Prediction::flops);
    object["predicted_activation_bytes"] = predicted(&Prediction::activation_bytes);
    object["predicted_peak_bytes"] = predicted(&Prediction::peak_bytes);
    object["predicted_receive_bytes"] = predicted(&Prediction::recv_bytes);
    return object;
  });
}

static json::Array describeWeights(const Plan &plan) {
  static constexpr llvm::StringRef kRoles[] = {"parameter", "buffer", "constant"};
  json::Array weights;
  for (auto [weight, stages] : llvm::zip(plan.weights, stagesOfWeights(plan)))
    weights.push_back(json::Object{
        {"name", weight->name},
        {"aliases", json::Array(weight->aliases)},
        {"role", kRoles[static_cast<size_t>(weight->role)]},
        {"dtype", nameOf(weight->dtype)},
        {"shape", toArray(weight->shape)},
        {"style", weight->style},
        {"trainable", weight->trainable},
        {"stage", stages.empty() ? json::Value(nullptr) : json::Value(stages.front())},
        {"stages", json::Array(stages)},
        {"devices", toArray(weight->shards, [&](const auto &shard) { return deviceOf(plan, shard->rank); })},
        {"shard_shapes", toArray(weight->shards, [](const auto &shard) { return toArray(shard->shape); })}});
  return weights;
}

/// Collectives of tensor-parallel rank 0, each of which runs once per micro-batch.
static json::Array describeCollectives(const Plan &plan) {
  return toArray(collectivesOf(plan), [](const CollectiveInfo &collective) {
    return json::Object{{"kind", collective.kind},
                        {"stage", collective.stage},
                        {"module_path", collective.path},
                        {"bytes", collective.bytes},
                        {"per_microbatch", true}};
  });
}

static json::Array describeShardingGroups(const Plan &plan) {
  return toArray(plan.sharding_groups, [](const auto &group) {
    return json::Object{{"module_path", group->path},
                        {"parts", group->parts},
                        {"weights", json::Array(group->weights)},
                        {"all_reduces", group->all_reduces},
                        {"all_gathers", group->all_gathers},
                        // Their names in 0.1, until 0.3.
                        {"sums", group->all_reduces},
                        {"gathers", group->all_gathers}};
  });
}

/// One entry per rank.
static json::Array describeDevices(const Plan &plan) {
  json::Array devices;
  for (uint32_t rank = 0; rank < plan.mesh->pp * plan.mesh->dp * plan.mesh->tp; ++rank)
    devices.push_back(
        json::Object{{"name", deviceOf(plan, rank)}, {"memory_bytes", memoryLimitOf(plan, rank)}});
  return devices;
}

static json::Array describeStates(const Plan &plan) {
  static const Signature none{};
  return toArray(plan.states, [](const auto &state) {
    const TensorType &type = *state->type;
    return json::Object{
        {"name", state->name},
        {"stage", state->stage},
        {"scope", llvm::StringRef(wire::EnumNameStateScope(state->scope)).lower()},
        {"batch_dim", state->batch_dim >= 0 ? json::Value(state->batch_dim) : json::Value(nullptr)},
        {"dtype", type.ranked ? json::Value(nameOf(type.dtype)) : json::Value(nullptr)},
        {"shape", shapeOf(none, type)}};
  });
}

static std::string lowerName(GroupKind kind) {
  return llvm::StringRef(wire::EnumNameGroupKind(kind)).lower();
}

static json::Array describeGroups(const Plan &plan) {
  return toArray(plan.groups, [](const auto &group) {
    return json::Object{{"kind", lowerName(group->kind)}, {"ranks", json::Array(group->ranks)}};
  });
}

static json::Array describeBuckets(const Plan &plan) {
  return toArray(plan.buckets, [&](const auto &bucket) {
    return json::Object{{"kind", lowerName(bucket->kind)},
                        {"groups", json::Array(bucket->groups)},
                        {"parts", toArray(bucket->parts, [&](const auto &part) {
                           return json::Object{{"stage", part->stage},
                                               {"states", toArray(part->states, [&](uint32_t state) {
                                                  return json::Value(plan.states[state]->name);
                                                })}};
                         })}};
  });
}

static json::Array describeTransfers(const Plan &plan) {
  json::Array all;
  for (uint32_t signature = 0; signature < plan.signatures.size(); ++signature)
    for (const Transfer &transfer : transfers(plan, signature))
      all.push_back(json::Object{
          {"signature", plan.signatures[signature]->name},
          {"from", transfer.from},
          {"to", transfer.to},
          {"values", transfer.inputs.size()},
          {"bytes", bytesOf(plan, signature, transfer, tracedSizes(*plan.signatures[signature]))},
          {"bytes_per_microbatch", bytesOf(plan, signature, transfer, microbatchSizes(plan, signature))}});
  return all;
}

/// Number of calls of each operator in the programs of tensor-parallel rank 0, by its name in the plan.
static llvm::StringMap<int64_t> countCalls(const Plan &plan) {
  llvm::StringMap<int64_t> calls;
  for (const auto &program : plan.programs)
    for (const auto &block : program->blocks)
      for (const auto &instruction : block->instructions)
        if (program->tp_rank == 0 &&
            llvm::is_contained({InstructionKind::Call, InstructionKind::Collective}, instruction->kind))
          ++calls[plan.operators[instruction->op]];
  return calls;
}

static json::Array describeReplicatedOps(const Plan &plan, const llvm::StringMap<int64_t> &calls) {
  llvm::StringMap<int64_t> callsOfIr;
  for (const auto &entry : calls)
    callsOfIr[irNameOf(entry.first().str())] += entry.second;
  json::Array ops;
  for (const auto &note : plan.notes)
    if (note->kind == "no-semantics" || note->kind == "replicated")
      ops.push_back(json::Object{{"op", note->op},
                                 {"module_path", note->module_path},
                                 {"calls", callsOfIr.lookup(note->op)},
                                 {"reason", note->text}});
  return ops;
}

static json::Value describeBalance(const Plan &plan) {
  std::optional<Balance> balance = balanceOf(plan);
  if (!balance)
    return nullptr;
  return json::Object{{"slowest_seconds", balance->slowest},
                      {"mean_seconds", balance->mean},
                      {"max_over_mean", balance->ratio()}};
}

static json::Array describeShardFiles(const Plan &plan) {
  return toArray(plan.shard_files, [&](const auto &file) {
    return json::Object{{"rank", file->rank},
                        {"device", deviceOf(plan, file->rank)},
                        {"name", file->name},
                        {"bytes", file->bytes},
                        {"checksum", toHex(toDigest(*file->hash))}};
  });
}

static json::Array describeCapturePoints(const Plan &plan) {
  return toArray(plan.capture_points, [&](const auto &point) {
    const Signature &signature = *plan.signatures[point->signature];
    const bool isSplit = llvm::any_of(point->slots, [](auto &slot) { return !slot->ranges.empty(); });
    return json::Object{
        {"path", point->path},
        {"index", point->index},
        {"call", point->call},
        {"signature", signature.name},
        {"stage", point->stage},
        {"dtype", nameOf(point->type->dtype)},
        {"shape", shapeOf(signature, *point->type)},
        {"writable", point->writable},
        {"partial", point->partial},
        {"split_dim", isSplit ? json::Value(point->slots[0]->ranges[0]->dim) : json::Value(nullptr)}};
  });
}

json::Object toJson(const LoadedPlan &loaded) {
  const Plan &plan = *loaded.plan;
  const Schedule &schedule = scheduleOf(plan, 0);
  json::Array signatures;
  for (auto [index, signature] : llvm::enumerate(plan.signatures))
    signatures.push_back(describe(plan, *signature, index));
  auto note = [](const auto &entry) {
    return json::Object{
        {"kind", entry->kind}, {"module_path", entry->module_path}, {"op", entry->op}, {"text", entry->text}};
  };
  llvm::StringMap<int64_t> calls = countCalls(plan);
  int64_t numberOfCalls = 0;
  for (const auto &entry : calls)
    numberOfCalls += entry.second;
  return json::Object{
      {"format_version", kFormatVersion},
      {"producer", plan.producer},
      {"root_checksum", toHex(loaded.rootChecksum)},
      {"fingerprint", toHex(toDigest(*plan.fingerprint))},
      {"pass_pipeline", plan.pass_pipeline},
      // Its name in 0.1, until 0.3; so for `dimensions`.
      {"pipeline", plan.pass_pipeline},
      {"precision",
       plan.precision == DType::Unknown ? json::Value(nullptr) : json::Value(nameOf(plan.precision))},
      {"mesh", json::Object{{"pp", plan.mesh->pp}, {"dp", plan.mesh->dp}, {"tp", plan.mesh->tp}}},
      {"microbatches", schedule.microbatches},
      {"slices", schedule.slices},
      {"schedule", schedule.name},
      {"bubble_by_formula", bubbleByFormula(plan, schedule.microbatches)},
      {"signatures", std::move(signatures)},
      {"stages", describeStages(plan)},
      {"balance", describeBalance(plan)},
      {"weights", describeWeights(plan)},
      {"states", describeStates(plan)},
      {"required_features", json::Array(plan.required_features)},
      {"groups", describeGroups(plan)},
      {"buckets", describeBuckets(plan)},
      {"transfers", describeTransfers(plan)},
      {"collectives", describeCollectives(plan)},
      {"sharding_groups", describeShardingGroups(plan)},
      {"dimensions", describeShardingGroups(plan)},
      {"devices", describeDevices(plan)},
      {"candidates", toJson(plan.candidates)},
      // Their name in 0.1, until 0.3.
      {"alternatives", toJson(plan.candidates)},
      {"calls", numberOfCalls},
      {"replicated_ops", describeReplicatedOps(plan, calls)},
      {"capture_points", describeCapturePoints(plan)},
      {"notes", toArray(plan.notes, note)},
      {"shard_files", describeShardFiles(plan)}};
}

} // namespace cleave
