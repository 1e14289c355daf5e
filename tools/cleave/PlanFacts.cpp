//===- PlanFacts.cpp - What follows from a plan ---------------------------===//
#include "tools/cleave/PlanFacts.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/Safetensors.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <set>

namespace cleave {

using namespace plan;

static int64_t bytesOf(const Weight &weight, uint32_t rank) {
  for (const auto &shard : weight.shards)
    if (shard->rank == rank) {
      int64_t bytes = bytesOf(weight.dtype);
      for (int64_t size : shard->shape)
        bytes *= size;
      return bytes;
    }
  return 0;
}

std::vector<std::vector<uint32_t>> stagesOfWeights(const Plan &plan) {
  std::vector<std::set<uint32_t>> stages(plan.weights.size());
  for (const auto &program : plan.programs)
    for (const auto &use : program->weights)
      stages[use->weight].insert(program->stage);
  std::vector<std::vector<uint32_t>> ordered;
  for (const auto &set : stages)
    ordered.emplace_back(set.begin(), set.end());
  return ordered;
}

std::vector<int64_t> weightBytesOfStages(const Plan &plan) {
  std::vector<int64_t> bytes(plan.stages.size());
  auto stages = stagesOfWeights(plan);
  for (auto [weight, users] : llvm::zip(plan.weights, stages))
    for (uint32_t stage : users)
      bytes[stage] += bytesOf(*weight, plan.stages[stage]->ranks.front());
  return bytes;
}

static std::optional<int64_t> bytesOf(const Signature &signature, const TensorType &type) {
  if (!type.ranked || type.dtype == DType::Unknown)
    return std::nullopt;
  std::vector<int64_t> traced;
  for (const auto &symbol : signature.symbols)
    traced.push_back(symbol->traced);
  int64_t bytes = bytesOf(type.dtype);
  for (const auto &dim : type.dims) {
    std::optional<int64_t> size = evaluate(*dim, traced);
    if (!size)
      return std::nullopt;
    bytes *= *size;
  }
  return bytes;
}

std::optional<int64_t> bytesOfSlot(const Plan &plan, const Program &program, uint32_t slot) {
  for (const auto &type : program.types)
    if (type->slot == slot)
      return bytesOf(*plan.signatures[program.signature], *type->type);
  return std::nullopt;
}

int64_t bytesOf(const Plan &plan, uint32_t signature, const Transfer &transfer) {
  int64_t bytes = 0;
  for (const auto &program : plan.programs)
    if (program->signature == signature && program->stage == transfer.to && program->tp_rank == 0)
      for (uint32_t input : transfer.inputs)
        bytes += bytesOfSlot(plan, *program, program->inputs[input]->slot).value_or(0);
  return bytes;
}

std::vector<std::string> dimensionsOf(const Signature &signature, const TensorType &type) {
  std::vector<std::string> names, dimensions;
  for (const auto &symbol : signature.symbols)
    names.push_back(symbol->name);
  for (const auto &dim : type.dims)
    dimensions.push_back(toString(*dim, names));
  return dimensions;
}

const Prediction *predictionOf(const Plan &plan, uint32_t stage) {
  auto found = llvm::find_if(plan.predictions, [&](const auto &entry) { return entry->stage == stage; });
  return found == plan.predictions.end() ? nullptr : found->get();
}

const Schedule &scheduleOf(const Plan &plan, uint32_t signature) {
  auto found =
      llvm::find_if(plan.schedules, [&](const auto &entry) { return entry->signature == signature; });
  assert(found != plan.schedules.end() && "validate wants a schedule for each signature");
  return **found;
}

std::string deviceOf(uint32_t rank) { return "cpu:" + std::to_string(rank); }

std::optional<Balance> balanceOf(const Plan &plan) {
  Balance balance;
  for (const auto &stage : plan.stages) {
    const Prediction *prediction = predictionOf(plan, stage->index);
    if (!prediction)
      return std::nullopt;
    balance.slowest = std::max(balance.slowest, prediction->seconds);
    balance.mean += prediction->seconds / plan.stages.size();
  }
  return balance;
}

} // namespace cleave
