//===- Validate.cpp - Whether a plan can be trusted to run ----------------===//
#include "codegen/plan/Batch.h"
#include "codegen/plan/Groups.h"
#include "codegen/plan/OperatorName.h"
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/Schedule.h"
#include "codegen/plan/ValidateParts.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace cleave::plan {

using llvm::Error;
using llvm::Twine;

/// Far above any machine; keeps products of mesh sizes small.
static constexpr uint64_t kMaxRanks = 1 << 16;

//===- Mesh and stages ----------------------------------------------------===//

static Error checkMesh(const Plan &plan) {
  const Mesh *mesh = plan.mesh.get();
  if (!mesh)
    return invalid("mesh", "it is missing");
  for (uint64_t size : {mesh->pp, mesh->dp, mesh->tp})
    if (size == 0 || size > kMaxRanks)
      return invalid("mesh", "an axis has the size " + Twine(size));
  uint64_t plane = static_cast<uint64_t>(mesh->pp) * mesh->dp;
  if (plane > kMaxRanks || plane * mesh->tp > kMaxRanks)
    return invalid("mesh", "more than " + Twine(kMaxRanks) + " ranks");
  return Error::success();
}

/// A stage must be on all ranks of one pipeline rank.
static Error checkStageRanks(const Plan &plan, const Stage &stage) {
  std::string where = "stage " + std::to_string(stage.index);
  uint32_t width = plan.mesh->dp * plan.mesh->tp, ranks = plan.mesh->pp * width;
  if (stage.ranks.size() != width)
    return invalid(where,
                   "on " + Twine(stage.ranks.size()) + " ranks, the mesh has " + Twine(width) + " a stage");
  uint32_t first = stage.ranks.front();
  if (first >= ranks || first % width != 0)
    return invalid(where, "its first rank " + Twine(first) + " is none of the mesh or begins no stage");
  for (uint32_t i = 0; i < width; ++i)
    if (stage.ranks[i] != first + i)
      return invalid(where, "rank " + Twine(stage.ranks[i]) + " where " + Twine(first + i) + " belongs");
  return Error::success();
}

static Error checkStages(const Plan &plan) {
  if (plan.stages.empty() || hasNull(plan.stages))
    return invalid("stages", "there are none, or one is missing");
  std::set<uint32_t> used;
  for (auto [index, stage] : llvm::enumerate(plan.stages)) {
    if (stage->index != index)
      return invalid("stages", "entry " + Twine(index) + " has the index " + Twine(stage->index));
    if (Error error = checkStageRanks(plan, *stage))
      return error;
    used.insert(stage->ranks.front());
    for (const std::string &path : stage->module_paths)
      if (Error error = checkText("stage " + Twine(index), path))
        return error;
  }
  if (used.size() != plan.mesh->pp)
    return invalid("stages", "they use " + Twine(used.size()) + " of pp=" + Twine(plan.mesh->pp) + " places");
  return Error::success();
}

//===- Strings and small tables -------------------------------------------===//

static Error checkStrings(const Plan &plan) {
  if (!plan.fingerprint)
    return invalid("fingerprint", "it is missing");
  if (Error error = checkText("producer", plan.producer))
    return error;
  if (Error error = checkText("pass_pipeline", plan.pass_pipeline))
    return error;
  for (const std::string &path : plan.paths)
    if (Error error = checkPath("module paths", path))
      return error;
  for (const std::string &op : plan.operators)
    if (!isOperatorName(op))
      return invalid("operators", "an entry is no operator name; expected namespace::name.overload");
  return Error::success();
}

static Error checkPrecision(const Plan &plan) {
  if (plan.precision != DType::Unknown && plan.precision != DType::BFloat16)
    return invalid("precision", "products are in the dtype " + Twine(static_cast<unsigned>(plan.precision)) +
                                    ", expected bfloat16 or none");
  return Error::success();
}

static bool isAmount(double value) { return std::isfinite(value) && value >= 0; }

static Error checkPredictions(const Plan &plan) {
  std::set<std::pair<uint32_t, uint32_t>> known;
  for (const auto &prediction : plan.predictions) {
    if (!prediction || prediction->stage >= plan.stages.size() || prediction->tp_rank >= plan.mesh->tp ||
        !known.insert({prediction->stage, prediction->tp_rank}).second)
      return invalid("predictions",
                     "an entry is missing, of a stage or tp rank that is not there, or the second "
                     "of its stage and tp rank");
    bool sound = isAmount(prediction->seconds) && isAmount(prediction->flops) &&
                 isAmount(prediction->bytes_touched) && prediction->weight_bytes >= 0 &&
                 prediction->activation_bytes >= 0 && prediction->peak_bytes >= 0 &&
                 prediction->recv_bytes >= 0 && isAmount(prediction->microbatch_seconds);
    if (!sound)
      return invalid("predictions",
                     "stage " + Twine(prediction->stage) + " has a negative or infinite amount");
  }
  return Error::success();
}

static Error checkLinks(const Plan &plan) {
  auto isSound = [](const LinkSpeed &link) {
    return isAmount(link.latency_seconds) && isAmount(link.bytes_per_second) && link.bytes_per_second > 0;
  };
  const char *unsound = "a negative or infinite latency, or a bandwidth that is not above 0";
  if (plan.link && !isSound(*plan.link))
    return invalid("link", unsound);
  const uint64_t ranks = uint64_t(plan.mesh->pp) * plan.mesh->dp * plan.mesh->tp;
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (auto [index, link] : llvm::enumerate(plan.link_overrides)) {
    const std::string where = "link overrides, entry " + std::to_string(index);
    if (!link || !link->speed)
      return invalid(where, "it is missing, or has no speed");
    const std::string ends =
        "from rank " + std::to_string(link->from) + " to rank " + std::to_string(link->to);
    if (std::max(link->from, link->to) >= ranks)
      return invalid(where, "it goes " + ends + ", the mesh has " + Twine(ranks));
    if (link->from == link->to)
      return invalid(where, "it goes " + ends + ", expected two ranks");
    if (!pairs.insert({link->from, link->to}).second)
      return invalid(where, "it goes " + ends + ", as one before does");
    if (!isSound(*link->speed))
      return invalid(where, unsound);
  }
  return Error::success();
}

static Error checkNotes(const Plan &plan) {
  for (const auto &note : plan.notes) {
    if (!note)
      return invalid("notes", "an entry is missing");
    for (const std::string *text : {&note->kind, &note->module_path, &note->op, &note->text})
      if (Error error = checkText("notes", *text))
        return error;
  }
  return Error::success();
}

static Error checkMachine(const Plan &plan) {
  const size_t ranks = size_t(plan.mesh->pp) * plan.mesh->dp * plan.mesh->tp;
  if (!plan.devices.empty() && plan.devices.size() != ranks)
    return invalid("devices",
                   "names for " + Twine(plan.devices.size()) + " ranks, the mesh has " + Twine(ranks));
  for (const std::string &name : plan.devices)
    if (Error error = checkName("devices", name))
      return error;
  if (!plan.memory_limits.empty() && plan.memory_limits.size() != ranks)
    return invalid("memory limits",
                   "of " + Twine(plan.memory_limits.size()) + " ranks, the mesh has " + Twine(ranks));
  if (llvm::any_of(plan.memory_limits, [](int64_t bytes) { return bytes < 0; }))
    return invalid("memory limits", "a negative number of bytes");
  return checkText("machine", plan.machine);
}

static Error checkCandidates(const Plan &plan) {
  if (plan.candidates.size() > kMaxCandidates)
    return invalid("candidates", "there are " + Twine(plan.candidates.size()) + ", expected at most " +
                                     Twine(kMaxCandidates));
  for (const auto &one : plan.candidates) {
    if (!one || one->microbatches == 0 || !isAmount(one->seconds) || one->peak_bytes < 0)
      return invalid("candidates",
                     "an entry is missing, has no micro-batches, or a negative or infinite amount");
    for (const std::string *name : {&one->mesh, &one->schedule})
      if (Error error = checkName("candidates", *name))
        return error;
    if (Error error = checkText("candidates", one->reason))
      return error;
    if (one->reason.empty() != (one == plan.candidates.front()))
      return invalid("candidates", "the first one has a reason against it, or another one has none");
  }
  return Error::success();
}

static Error checkShardingGroups(const Plan &plan) {
  for (const auto &group : plan.sharding_groups) {
    if (!group || group->parts < 1)
      return invalid("sharding_groups", "an entry is missing, or has no parts");
    if (Error error = checkText("sharding_groups", group->path))
      return error;
    for (const std::string &weight : group->weights)
      if (Error error = checkText("sharding_groups", weight))
        return error;
  }
  return Error::success();
}

static Error checkSignatures(const Plan &plan) {
  if (plan.signatures.empty() || hasNull(plan.signatures))
    return invalid("signatures", "there are none, or one is missing");
  llvm::StringSet<> names;
  for (const auto &signature : plan.signatures) {
    if (Error error = checkName("signatures", signature->name))
      return error;
    if (!names.insert(signature->name).second)
      return invalid("signatures", "there are two '" + signature->name + "'");
    if (Error error = checkSignature(plan, *signature))
      return error;
  }
  return Error::success();
}

//===- Programs and what refers to them -----------------------------------===//

/// Every (signature, stage, tp rank) must have one forward program; other phases are on all tp ranks of a
/// stage or on none.
static llvm::Expected<ProgramTable> tabulatePrograms(const Plan &plan) {
  ProgramTable table;
  for (const auto &program : plan.programs) {
    if (!program || program->signature >= plan.signatures.size() || program->stage >= plan.stages.size() ||
        program->tp_rank >= plan.mesh->tp || program->phase > Phase::MAX)
      return invalid("programs",
                     "one is missing, or of a signature, stage, tp rank or phase that is not there");
    if (!table.insert({{program->signature, program->stage, program->tp_rank, program->phase}, program.get()})
             .second)
      return invalid("programs",
                     "stage " + Twine(program->stage) + " has two for one signature, phase and tp rank");
  }
  uint64_t expected = static_cast<uint64_t>(plan.signatures.size()) * plan.stages.size() * plan.mesh->tp;
  uint64_t found = llvm::count_if(plan.programs, [](auto &each) { return each->phase == Phase::Forward; });
  if (found != expected)
    return invalid("programs", "there are " + Twine(found) + " for " + Twine(expected) +
                                   " combinations of signature, stage and tp rank");
  for (auto &[key, program] : table) {
    auto [signature, stage, tpRank, phase] = key;
    const bool isSame = table.count({signature, stage, (tpRank + 1) % plan.mesh->tp, phase});
    if (!isSame ||
        (phase == Phase::BackwardWeight && !table.count({signature, stage, tpRank, Phase::BackwardInput})))
      return invalid("programs", "stage " + Twine(stage) + " has " + wire::EnumNamePhase(phase) +
                                     (isSame ? " without BackwardInput" : " on some tp ranks alone"));
  }
  return table;
}

/// The program's collectives with other tp ranks, in order; only blocks[0] may have them.
static std::vector<std::pair<GroupKind, uint32_t>> exchangesOf(const Program &program) {
  std::vector<std::pair<GroupKind, uint32_t>> calls;
  for (const auto &instruction : program.blocks[0]->instructions)
    if (instruction->kind == InstructionKind::Collective)
      calls.push_back({instruction->group, instruction->op});
  return calls;
}

using Exchanges = std::map<const Program *, std::vector<std::pair<GroupKind, uint32_t>>>;

/// The values that a program takes from others must exist and be the same on every tp rank, and so must its
/// collectives.
static Error checkLinks(const ProgramTable &table, const Exchanges &exchanges, const Program &program) {
  std::string where = "program of stage " + std::to_string(program.stage);
  for (const auto &input : program.inputs) {
    if (input->source != Source::Stage)
      continue;
    auto sender = table.find({program.signature, input->stage, program.tp_rank, input->phase});
    const size_t results = sender == table.end() ? 0 : sender->second->outputs.size();
    if (input->index >= results)
      return invalid(where, "takes result " + Twine(input->index) + " of stage " + Twine(input->stage) +
                                ", which has " + Twine(results));
  }
  const Program &first = *table.at({program.signature, program.stage, 0, program.phase});
  auto isSame = [](const auto &a, const auto &b) {
    return std::tie(a->source, a->stage, a->index, a->phase) ==
           std::tie(b->source, b->stage, b->index, b->phase);
  };
  if (!llvm::equal(program.inputs, first.inputs, isSame) || program.outputs.size() != first.outputs.size())
    return invalid(where,
                   "tp rank " + Twine(program.tp_rank) + " takes or gives other values than tp rank 0");
  if (exchanges.at(&program) != exchanges.at(&first))
    return invalid(where, "tp rank " + Twine(program.tp_rank) +
                              " calls other collectives than tp rank 0, or in another order");
  return Error::success();
}

/// The ranks that run a program must hold the weights that it uses.
static Error checkPlacement(const Plan &plan, const Program &program,
                            const std::set<std::pair<uint32_t, uint32_t>> &placed) {
  // Each weight once, however often it is used.
  std::set<uint32_t> weights;
  for (const auto &use : program.weights)
    weights.insert(use->weight);
  for (uint32_t rank : plan.stages[program.stage]->ranks)
    for (uint32_t weight : weights)
      if (rank % plan.mesh->tp == program.tp_rank && !placed.count({weight, rank}))
        return invalid("program of stage " + Twine(program.stage),
                       "uses weight '" + plan.weights[weight]->name + "', of which rank " + Twine(rank) +
                           " has no shard");
  return Error::success();
}

static Error checkPrograms(const Plan &plan, const ProgramTable &table) {
  std::set<std::pair<uint32_t, uint32_t>> placed;
  for (auto [index, weight] : llvm::enumerate(plan.weights))
    for (const auto &shard : weight->shards)
      placed.insert({index, shard->rank});
  for (const auto &program : plan.programs)
    if (Error error = checkProgram(plan, *program))
      return error;
  Exchanges exchanges;
  for (const auto &program : plan.programs)
    exchanges[program.get()] = exchangesOf(*program);
  for (const auto &program : plan.programs) {
    if (Error error = checkLinks(table, exchanges, *program))
      return error;
    if (Error error = checkPlacement(plan, *program, placed))
      return error;
  }
  return Error::success();
}

static Error checkOutputs(const Plan &plan, const ProgramTable &table) {
  for (auto [index, signature] : llvm::enumerate(plan.signatures))
    for (const auto &output : signature->outputs) {
      auto maker = table.find({index, output->stage, 0, output->phase});
      if (maker == table.end() || output->index >= maker->second->outputs.size())
        return invalid("signature '" + signature->name + "', output '" + output->name + "'",
                       "is result " + Twine(output->index) + " of stage " + Twine(output->stage) +
                           ", which has fewer");
    }
  return Error::success();
}

/// A state of the session that micro-batches of `signature` would read and write one after the other; null if
/// there is none. Updates happen once a request.
static const State *stateBetweenMicrobatches(const Plan &plan, uint32_t signature) {
  for (const auto &program : plan.programs)
    for (const auto &block : program->blocks)
      for (const auto &instruction : block->instructions)
        if (program->signature == signature && !isOnce(program->phase) &&
            llvm::is_contained({InstructionKind::StateRead, InstructionKind::StateWrite},
                               instruction->kind) &&
            plan.states[instruction->op]->scope == StateScope::Session)
          return plan.states[instruction->op].get();
  return nullptr;
}

/// Rows of a sequence are kept by micro-batch, so all signatures that use them have the same ones.
static Error checkSequences(const Plan &plan, const Schedule &schedule,
                            std::optional<uint32_t> &microbatches) {
  if (!usesSequences(plan, schedule.signature))
    return Error::success();
  if (plan.signatures[schedule.signature]->batch < 0)
    return invalid("schedules", "a state has rows for the batch in a signature that has no batch");
  if (microbatches.value_or(schedule.microbatches) != schedule.microbatches)
    return invalid("schedules", "signatures with the same states have " + Twine(*microbatches) + " and " +
                                    Twine(schedule.microbatches) + " micro-batches");
  microbatches = schedule.microbatches;
  return Error::success();
}

static Error checkSchedules(const Plan &plan) {
  std::set<uint32_t> scheduled;
  std::optional<uint32_t> microbatches;
  for (const auto &schedule : plan.schedules) {
    if (!schedule || schedule->signature >= plan.signatures.size() || hasNull(schedule->ranks))
      return invalid("schedules", "one is missing, incomplete, or of a signature that is not there");
    if (!scheduled.insert(schedule->signature).second)
      return invalid("schedules", "signature " + Twine(schedule->signature) + " has several");
    if (Error error = checkText("schedules", schedule->name))
      return error;
    if (Error error = checkSchedule(plan, *schedule))
      return error;
    if (microbatchesOfAll(plan, *schedule) > 1 || schedule->slices > 1)
      if (const State *state = stateBetweenMicrobatches(plan, schedule->signature))
        return invalid("schedules",
                       "a request comes in parts, between which state '" + state->name + "' would pass");
    if (Error error = checkSequences(plan, *schedule, microbatches))
      return error;
  }
  if (scheduled.size() != plan.signatures.size())
    return invalid("schedules", "a signature has none");
  return Error::success();
}

/// What this version runs beyond inference.
static constexpr llvm::StringLiteral kFeatures[] = {"training", "sequences"};

/// The plan must list the features that it uses, and no others than this version has.
static Error checkFeatures(const Plan &plan) {
  for (const std::string &feature : requiredFeatures(plan))
    if (!llvm::is_contained(plan.required_features, feature))
      return invalid("required features", "the plan uses '" + feature + "' and does not list it");
  return Error::success();
}

static Error checkFeatureNames(const Plan &plan) {
  for (const std::string &feature : plan.required_features) {
    if (Error error = checkName("required features", feature))
      return error;
    if (!llvm::is_contained(kFeatures, feature))
      return invalid("required features",
                     "found '" + feature + "', this cleave has training and sequences; use a newer cleave");
  }
  return Error::success();
}

Error validate(const Plan &plan) {
  // Each check relies on the checks before it.
  for (auto check : {checkFeatureNames, checkMesh, checkStages, checkStrings, checkSignatures, checkWeights,
                     checkShardFiles, checkPrecision, checkStates, checkGroups, checkBuckets, checkMachine,
                     checkPredictions, checkLinks, checkNotes, checkShardingGroups, checkCandidates})
    if (Error error = check(plan))
      return error;
  llvm::Expected<ProgramTable> table = tabulatePrograms(plan);
  if (!table)
    return table.takeError();
  for (auto check : {checkPrograms, checkOutputs, checkCapturePoints})
    if (Error error = check(plan, *table))
      return error;
  if (Error error = checkSchedules(plan))
    return error;
  return checkFeatures(plan);
}

} // namespace cleave::plan
