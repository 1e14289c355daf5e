//===- PlanQueries.cpp - Queries on a plan --------------------------------===//
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/Batch.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/OperatorName.h"
#include "codegen/plan/SafetensorsHeader.h"
#include "codegen/plan/ValidateParts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"
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

std::vector<CollectiveInfo> collectivesOf(const Plan &plan) {
  std::vector<CollectiveInfo> collectives;
  for (const auto &program : plan.programs)
    for (const auto &block : program->blocks)
      for (const auto &instruction : block->instructions)
        if (program->tp_rank == 0 && instruction->kind == InstructionKind::Collective)
          collectives.push_back({llvm::StringRef(plan.operators[instruction->op]).split("::").second.str(),
                                 plan.paths[instruction->path], program->stage,
                                 bytesOfSlot(*program, instruction->operands.front(),
                                             tracedSizes(*plan.signatures[program->signature]))});
  return collectives;
}

bool usesSequences(const Plan &plan, uint32_t signature) {
  auto isOfSequence = [&](const auto &instruction) {
    return (instruction->kind == InstructionKind::StateRead ||
            instruction->kind == InstructionKind::StateWrite) &&
           plan.states[instruction->op]->scope == StateScope::Sequence;
  };
  auto usesOne = [&](const auto &block) { return llvm::any_of(block->instructions, isOfSequence); };
  return llvm::any_of(plan.programs, [&](const auto &program) {
    return program->signature == signature && llvm::any_of(program->blocks, usesOne);
  });
}

std::map<uint32_t, uint32_t> copiedStates(const Plan &plan) {
  std::map<uint32_t, uint32_t> copies;
  // By weight.
  std::map<uint32_t, const std::vector<uint32_t> *> first;
  for (const auto &program : plan.programs)
    for (const auto &block : program->blocks)
      for (const auto &instruction : block->instructions) {
        if (instruction->kind != InstructionKind::WeightUpdate)
          continue;
        const std::vector<uint32_t> &states = instruction->optimizer->states;
        auto known = first.try_emplace(instruction->op, &states).first;
        for (auto [own, original] : llvm::zip(states, *known->second))
          if (own != original)
            copies[own] = original;
      }
  return copies;
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

std::vector<std::string> requiredFeatures(const Plan &plan) {
  auto any = [](const auto &table, auto isUsed) { return llvm::any_of(table, isUsed); };
  std::vector<std::string> features;
  if (any(plan.states, [](auto &state) { return state->scope == StateScope::Sequence; }))
    features.push_back("sequences");
  const bool sums = any(plan.signatures, [&](auto &signature) {
    return any(signature->outputs, [](auto &output) { return output->merge == OutputMerge::Sum; });
  });
  if (sums || !plan.buckets.empty() ||
      any(plan.programs, [](auto &program) { return program->phase != Phase::Forward; }) ||
      any(plan.weights, [](auto &weight) { return weight->trainable; }) ||
      any(plan.states, [](auto &state) { return state->scope == StateScope::Step; }))
    features.push_back("training");
  return features;
}

//===- Modules ------------------------------------------------------------===//

std::string withoutCalls(llvm::StringRef path) {
  llvm::SmallVector<llvm::StringRef> names;
  path.split(names, '.');
  for (llvm::StringRef &name : names)
    name = name.split('#').first;
  return llvm::join(names, ".");
}

/// The module that has the weight.
static llvm::StringRef moduleOf(llvm::StringRef weight) {
  return weight.contains('.') ? weight.rsplit('.').first : llvm::StringRef();
}

/// True if Stage.ops counts the instruction; construction and unpacking of lists, tuples and dicts do not
/// count.
static bool isOperation(const Instruction &instruction) {
  switch (instruction.kind) {
  case InstructionKind::List:
  case InstructionKind::Tuple:
  case InstructionKind::Dict:
  case InstructionKind::Unpack:
    return false;
  default:
    return true;
  }
}

namespace {
/// By path: the modules of one stage.
class ModuleShares {
public:
  ModuleShare &operator[](llvm::StringRef path) {
    auto [entry, isNew] = indices.try_emplace(path, shares.size());
    if (isNew)
      shares.push_back({path.str()});
    return shares[entry->second];
  }
  std::vector<ModuleShare> take() { return std::move(shares); }

private:
  llvm::StringMap<size_t> indices;
  std::vector<ModuleShare> shares;
};
} // namespace

std::vector<std::vector<ModuleShare>> modulesOfStages(const Plan &plan) {
  std::vector<ModuleShares> modules(plan.stages.size());
  for (const auto &program : plan.programs)
    if (program->signature == 0 && program->tp_rank == 0 && program->phase == Phase::Forward)
      for (const auto &instruction : program->blocks.front()->instructions)
        if (isOperation(*instruction))
          ++modules[program->stage][withoutCalls(plan.paths[instruction->path])].ops;
  for (auto [weight, users] : llvm::zip(plan.weights, stagesOfWeights(plan)))
    for (uint32_t stage : users)
      modules[stage][moduleOf(weight->name)].weightBytes +=
          bytesOf(*weight, plan.stages[stage]->ranks.front());
  std::vector<std::vector<ModuleShare>> result;
  for (ModuleShares &shares : modules)
    result.push_back(shares.take());
  return result;
}

//===- Traffic ------------------------------------------------------------===//

std::vector<int64_t> microbatchSizes(const Plan &plan, uint32_t signature) {
  std::vector<int64_t> sizes = tracedSizes(*plan.signatures[signature]);
  if (int32_t batch = plan.signatures[signature]->batch; batch >= 0)
    sizes[batch] =
        llvm::divideCeil(uint64_t(sizes[batch]), microbatchesOfAll(plan, scheduleOf(plan, signature)));
  return sizes;
}

static std::optional<int64_t> bytesOf(const TensorType &type, llvm::ArrayRef<int64_t> symbols) {
  if (!type.ranked)
    return std::nullopt;
  std::vector<int64_t> shape;
  for (const auto &dim : type.dims)
    shape.push_back(evaluate(*dim, symbols).value_or(-1));
  return bytesOf(type.dtype, shape);
}

std::optional<int64_t> bytesOfSlot(const Program &program, uint32_t slot, llvm::ArrayRef<int64_t> symbols) {
  for (const auto &type : program.types)
    if (type->slot == slot)
      return bytesOf(*type->type, symbols);
  return std::nullopt;
}

int64_t bytesOf(const Plan &plan, uint32_t signature, const Transfer &transfer,
                llvm::ArrayRef<int64_t> symbols) {
  int64_t bytes = 0;
  for (const auto &program : plan.programs)
    if (program->signature == signature && program->stage == transfer.to &&
        program->phase == transfer.phase && program->tp_rank == 0)
      for (uint32_t input : transfer.inputs)
        bytes += bytesOfSlot(*program, program->inputs[input]->slot, symbols).value_or(0);
  return bytes;
}

double bubbleByFormula(const Plan &plan, int64_t microbatches) {
  const double ranks = plan.mesh->pp, work = plan.stages.size() / ranks * microbatches;
  return (ranks - 1) / (work + ranks - 1);
}

//===- Other collectives --------------------------------------------------===//

std::vector<std::string> dimensionsOf(const Signature &signature, const TensorType &type) {
  std::vector<std::string> names, dimensions;
  for (const auto &symbol : signature.symbols)
    names.push_back(symbol->name);
  for (const auto &dim : type.dims)
    dimensions.push_back(toString(*dim, names));
  return dimensions;
}

const Prediction *predictionOf(const Plan &plan, uint32_t stage) {
  const Prediction *most = nullptr;
  for (const auto &entry : plan.predictions)
    if (entry->stage == stage && (!most || entry->peak_bytes > most->peak_bytes))
      most = entry.get();
  return most;
}

const Prediction *predictionOf(const Plan &plan, uint32_t stage, uint32_t tpRank) {
  auto found = llvm::find_if(
      plan.predictions, [&](const auto &entry) { return entry->stage == stage && entry->tp_rank == tpRank; });
  return found == plan.predictions.end() ? nullptr : found->get();
}

const Schedule &scheduleOf(const Plan &plan, uint32_t signature) {
  auto found =
      llvm::find_if(plan.schedules, [&](const auto &entry) { return entry->signature == signature; });
  assert(found != plan.schedules.end() && "validate wants a schedule for each signature");
  return **found;
}

std::string deviceOf(const Plan &plan, uint32_t rank) {
  return plan.devices.empty() ? "cpu:" + std::to_string(rank) : plan.devices[rank];
}

std::optional<int64_t> memoryLimitOf(const Plan &plan, uint32_t rank) {
  if (plan.memory_limits.empty() || plan.memory_limits[rank] == 0)
    return std::nullopt;
  return plan.memory_limits[rank];
}

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
