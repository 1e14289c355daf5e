//===- ScheduleCheck.cpp - Whether a schedule can finish ------------------===//
#include "codegen/plan/Batch.h"
#include "codegen/plan/Schedule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <limits>
#include <map>
#include <set>
#include <tuple>

namespace cleave::plan {

using llvm::Error;

static Error invalid(const Schedule &schedule, const llvm::Twine &what) {
  return llvm::createStringError("schedule '" + schedule.name + "': " + what);
}

//===- Structure ----------------------------------------------------------===//

static auto fieldsOf(const Action &action) {
  return std::tie(action.kind, action.stage, action.microbatch, action.peer_stage, action.slice,
                  action.bucket);
}

static Error checkAction(const Plan &plan, const Schedule &schedule, uint32_t rank, const Action *action) {
  auto refuse = [&](const llvm::Twine &what) {
    return invalid(schedule, "rank " + llvm::Twine(rank) + ": " + what);
  };
  if (!action || action->kind > ActionKind::MAX)
    return refuse("an action is missing or of an unknown kind");
  if (action->stage >= plan.stages.size() ||
      pipelineRankOf(plan, action->stage) != rank / ranksPerDeviceGroup(plan))
    return refuse(toString(*action) + " is of a stage that is not on this rank");
  if (action->microbatch >= (isOnce(action->kind) ? 1 : schedule.microbatches))
    return refuse(toString(*action) + ": there are " + llvm::Twine(schedule.microbatches) + " micro-batches");
  if (action->slice >= schedule.slices)
    return refuse(toString(*action) + ": there are " + llvm::Twine(schedule.slices) + " slices");
  if (action->kind == ActionKind::Reduce) {
    if (action->bucket >= plan.buckets.size() || !partOf(*plan.buckets[action->bucket], action->stage))
      return refuse(toString(*action) + ": the bucket does not exist or has nothing of this stage");
    if (llvm::none_of(plan.programs, [&](const auto &program) {
          return program->signature == schedule.signature && program->phase != Phase::Forward;
        }))
      return refuse(toString(*action) + ": its signature has forward programs alone, which sum nothing");
    return Error::success();
  }
  if (!isTransport(action->kind))
    return Error::success();
  if (action->peer_stage >= plan.stages.size() ||
      pipelineRankOf(plan, action->peer_stage) == pipelineRankOf(plan, action->stage))
    return refuse(toString(*action) + ": the other stage does not exist or is on the same rank");
  return Error::success();
}

/// Checks that every rank is present, in order, with valid actions, and that ranks which share their stages
/// have the same ones.
static Error checkStructure(const Plan &plan, const Schedule &schedule) {
  if (schedule.microbatches == 0 || schedule.slices == 0)
    return invalid(schedule, "no micro-batches or no slices");
  const uint64_t microbatches = microbatchesOfAll(plan, schedule);
  if (microbatches > std::numeric_limits<uint32_t>::max())
    return invalid(schedule, llvm::Twine(microbatches) +
                                 " micro-batches of all data-parallel ranks, expected less than 2^32");
  if (microbatches > 1 && plan.signatures[schedule.signature]->batch < 0)
    return invalid(schedule, llvm::Twine(microbatches) + " micro-batches of a signature without a batch");
  const size_t ranks = rankCount(*plan.mesh);
  if (schedule.ranks.size() != ranks)
    return invalid(schedule, "actions for " + llvm::Twine(schedule.ranks.size()) + " ranks, the mesh has " +
                                 llvm::Twine(ranks));
  for (auto [rank, actions] : llvm::enumerate(schedule.ranks)) {
    if (!actions || actions->rank != rank)
      return invalid(schedule, "entry " + llvm::Twine(rank) + " is missing or of another rank");
    for (const auto &action : actions->actions)
      if (Error error = checkAction(plan, schedule, rank, action.get()))
        return error;
    const RankActions &first = *schedule.ranks[rank - rank % ranksPerDeviceGroup(plan)];
    auto areEqual = [](auto &a, auto &b) { return fieldsOf(*a) == fieldsOf(*b); };
    if (!llvm::equal(actions->actions, first.actions, areEqual))
      return invalid(schedule, "rank " + llvm::Twine(rank) + " does not act as rank " +
                                   llvm::Twine(first.rank) + ", which has the same stages");
  }
  return Error::success();
}

//===- Simulation ---------------------------------------------------------===//

namespace {
/// Simulates a schedule with one rank per pipeline rank, with sends that block until their receive, and
/// reductions that block until all their ranks are there.
class Simulation {
public:
  Simulation(const Plan &plan, const Schedule &schedule);
  Error run();

private:
  using Done = std::tuple<ActionKind, uint32_t, uint32_t, uint32_t>;

  void findSums(const Program &program);
  const Action *head(uint32_t pipelineRank) const;
  bool isDone(ActionKind kind, uint32_t stage, uint32_t microbatch, uint32_t peer = 0) const;
  bool hasProgram(uint32_t stage, Phase phase) const { return programs.count({stage, phase}) != 0; }
  /// How often the schedule must run the program of an action; 0 if there is none.
  uint64_t wantedRuns(ActionKind kind, uint32_t stage) const;
  uint64_t count(ActionKind kind, uint32_t stage) const;
  /// Name of an action that must come before `action` and has not run; empty if there is none.
  std::string missing(const Action &action) const;
  std::string missingInput(const Action &action, ActionKind compute, ActionKind receive,
                           llvm::ArrayRef<uint32_t> sources) const;
  std::string missingForSend(const Action &action) const;
  std::string missingRuns(uint32_t stage, llvm::ArrayRef<ActionKind> kinds) const;
  std::string missingReductions(uint32_t stage, bool isUpdate) const;
  std::string missingForReduction(uint32_t stage, uint32_t bucket) const;
  /// True if programs of the stage add to or read sums of a part of the bucket.
  bool uses(uint32_t stage, const Bucket &bucket) const;
  Error finish(uint32_t pipelineRank);
  Error advance(uint32_t pipelineRank);
  /// Finishes the actions of other pipeline ranks that happen together with `action`. Nothing yet if one of
  /// them has not got there.
  llvm::Expected<bool> meet(const Action &action);
  Error deadlock() const;
  Error checkComplete() const;

  const Plan &plan;
  const Schedule &schedule;
  std::set<ProgramKey> programs;
  /// By stage: the sums over a step that its programs add to or read.
  std::map<uint32_t, std::set<uint32_t>> sums;
  /// By stage: stages that send to it, and stages that it sends to; activations, and gradients.
  std::vector<std::vector<uint32_t>> sources, targets, gradientSources, gradientTargets;
  const std::set<uint32_t> ofNorm;
  std::vector<size_t> next;
  std::vector<uint32_t> awake;
  std::set<Done> done;
  /// By kind of action and stage: how often it ran.
  std::map<std::pair<ActionKind, uint32_t>, uint64_t> runs;
};
} // namespace

Simulation::Simulation(const Plan &plan, const Schedule &schedule)
    : plan(plan), schedule(schedule), sources(plan.stages.size()), targets(sources), gradientSources(sources),
      gradientTargets(sources), ofNorm(bucketsOfNorm(plan, schedule.signature)), next(plan.mesh->pp) {
  for (const auto &program : plan.programs)
    if (program->signature == schedule.signature) {
      programs.insert({program->stage, program->phase});
      findSums(*program);
    }
  for (const Transfer &transfer : transfers(plan, schedule.signature)) {
    sources[transfer.to].push_back(transfer.from);
    targets[transfer.from].push_back(transfer.to);
  }
  for (const Transfer &transfer : transfers(plan, schedule.signature, Phase::BackwardInput)) {
    gradientSources[transfer.to].push_back(transfer.from);
    gradientTargets[transfer.from].push_back(transfer.to);
  }
}

void Simulation::findSums(const Program &program) {
  for (const auto &block : program.blocks)
    for (const auto &instruction : block->instructions) {
      const bool adds = instruction->kind == InstructionKind::StateAccumulate;
      if (!adds &&
          (instruction->kind != InstructionKind::StateRead || instruction->op >= plan.states.size() ||
           plan.states[instruction->op]->scope != StateScope::Step))
        continue;
      sums[program.stage].insert(instruction->op);
    }
}

const Action *Simulation::head(uint32_t pipelineRank) const {
  const auto &actions =
      schedule.ranks[static_cast<size_t>(pipelineRank) * ranksPerDeviceGroup(plan)]->actions;
  return next[pipelineRank] < actions.size() ? actions[next[pipelineRank]].get() : nullptr;
}

bool Simulation::isDone(ActionKind kind, uint32_t stage, uint32_t microbatch, uint32_t peer) const {
  return done.count({kind, stage, microbatch, peer}) != 0;
}

uint64_t Simulation::wantedRuns(ActionKind kind, uint32_t stage) const {
  if (!hasProgram(stage, phaseOf(kind)))
    return 0;
  return isOnce(kind) ? 1 : schedule.microbatches;
}

static std::string nameOf(ActionKind kind, uint32_t stage, uint32_t microbatch, uint32_t peer = 0) {
  Action action;
  action.kind = kind;
  action.stage = stage;
  action.microbatch = microbatch;
  action.peer_stage = peer;
  return toString(action);
}

/// Values come by a receive, or from a stage of the same rank once it has run.
std::string Simulation::missingInput(const Action &action, ActionKind compute, ActionKind receive,
                                     llvm::ArrayRef<uint32_t> from) const {
  for (uint32_t source : from) {
    bool isLocal = pipelineRankOf(plan, source) == pipelineRankOf(plan, action.stage);
    if (isLocal && !isDone(compute, source, action.microbatch))
      return nameOf(compute, source, action.microbatch);
    if (!isLocal && !isDone(receive, action.stage, action.microbatch, source))
      return nameOf(receive, action.stage, action.microbatch, source);
  }
  return {};
}

std::string Simulation::missingForSend(const Action &action) const {
  const bool isForward = action.kind == ActionKind::Send;
  if (!llvm::is_contained((isForward ? targets : gradientTargets)[action.stage], action.peer_stage))
    return "any value to send";
  ActionKind compute = isForward ? ActionKind::Forward : ActionKind::BackwardInput;
  return isDone(compute, action.stage, action.microbatch) ? ""
                                                          : nameOf(compute, action.stage, action.microbatch);
}

std::string Simulation::missingRuns(uint32_t stage, llvm::ArrayRef<ActionKind> kinds) const {
  for (ActionKind kind : kinds)
    if (count(kind, stage) != wantedRuns(kind, stage))
      return kind == ActionKind::Norm ? "the norm of its stage" : "every forward and backward of its stage";
  return {};
}

bool Simulation::uses(uint32_t stage, const Bucket &bucket) const {
  auto own = sums.find(stage);
  return partOf(bucket, stage) ||
         (own != sums.end() && llvm::any_of(bucket.parts, [&](const auto &part) {
            return pipelineRankOf(plan, part->stage) == pipelineRankOf(plan, stage) &&
                   llvm::any_of(part->states, [&](uint32_t state) { return own->second.count(state) != 0; });
          }));
}

std::string Simulation::missingReductions(uint32_t stage, bool isUpdate) const {
  for (auto [index, bucket] : llvm::enumerate(plan.buckets))
    if (uses(stage, *bucket) && (isUpdate || !ofNorm.count(index)))
      for (const auto &part : bucket->parts)
        if (pipelineRankOf(plan, part->stage) == pipelineRankOf(plan, stage) &&
            !isDone(ActionKind::Reduce, part->stage, 0, index))
          return "the reduction of bucket " + std::to_string(index);
  return {};
}

/// Each term must have been added, by whichever stage of the rank adds it.
std::string Simulation::missingForReduction(uint32_t stage, uint32_t bucket) const {
  for (uint32_t other = 0; other < plan.stages.size(); ++other) {
    if (pipelineRankOf(plan, other) != pipelineRankOf(plan, stage) || !uses(other, *plan.buckets[bucket]))
      continue;
    std::string before = ofNorm.count(bucket)
                             ? missingRuns(other, {ActionKind::Norm})
                             : missingRuns(other, {ActionKind::Forward, ActionKind::BackwardInput,
                                                   ActionKind::BackwardWeight});
    if (!before.empty())
      return before;
  }
  return {};
}

std::string Simulation::missing(const Action &action) const {
  using Kind = ActionKind;
  const uint32_t stage = action.stage, microbatch = action.microbatch;
  auto after = [&](Kind kind) {
    return isDone(kind, stage, microbatch) ? "" : nameOf(kind, stage, microbatch);
  };
  if (isCompute(action.kind) && !hasProgram(stage, phaseOf(action.kind)))
    return "any program that it could run";
  switch (action.kind) {
  case Kind::Forward:
    return missingInput(action, Kind::Forward, Kind::Recv, sources[stage]);
  case Kind::BackwardInput: {
    const std::string forward = after(Kind::Forward);
    return forward.empty() ? missingInput(action, Kind::BackwardInput, Kind::RecvGrad, gradientSources[stage])
                           : forward;
  }
  case Kind::BackwardWeight:
    return after(Kind::BackwardInput);
  case Kind::Norm: {
    const std::string run = missingRuns(stage, {Kind::Forward, Kind::BackwardInput, Kind::BackwardWeight});
    return run.empty() ? missingReductions(stage, /*isUpdate=*/false) : run;
  }
  case Kind::Update: {
    const std::string run =
        missingRuns(stage, {Kind::Forward, Kind::BackwardInput, Kind::BackwardWeight, Kind::Norm});
    return run.empty() ? missingReductions(stage, /*isUpdate=*/true) : run;
  }
  case Kind::Reduce:
    return missingForReduction(stage, action.bucket);
  case Kind::Send:
  case Kind::SendGrad:
    return missingForSend(action);
  case Kind::Recv:
  case Kind::RecvGrad:
    return {};
  }
  return {};
}

/// Records the pipeline rank's next action as done.
Error Simulation::finish(uint32_t pipelineRank) {
  const Action &action = *head(pipelineRank);
  const uint32_t other = isTransport(action.kind)            ? action.peer_stage
                         : action.kind == ActionKind::Reduce ? action.bucket
                                                             : 0;
  if (!done.insert({action.kind, action.stage, action.microbatch, other}).second)
    return invalid(schedule, toString(action) + " stands there twice");
  if (!isTransport(action.kind))
    ++runs[{action.kind, action.stage}];
  ++next[pipelineRank];
  return Error::success();
}

llvm::Expected<bool> Simulation::meet(const Action &action) {
  struct Partner {
    uint32_t pipelineRank;
    std::tuple<ActionKind, uint32_t, uint32_t, uint32_t, uint32_t> action;
  };
  auto identify = [](ActionKind kind, uint32_t stage, uint32_t microbatch, uint32_t peer, uint32_t bucket) {
    return std::tuple(kind, stage, microbatch, peer, bucket);
  };
  llvm::SmallVector<Partner> partners;
  if (isTransport(action.kind))
    partners.push_back(
        {pipelineRankOf(plan, action.peer_stage),
         identify(counterpartOf(action.kind), action.peer_stage, action.microbatch, action.stage, 0)});
  else if (action.kind == ActionKind::Reduce)
    for (const auto &part : plan.buckets[action.bucket]->parts)
      if (part->stage != action.stage)
        partners.push_back({pipelineRankOf(plan, part->stage),
                            identify(ActionKind::Reduce, part->stage, 0, 0, action.bucket)});
  for (const Partner &partner : partners) {
    const Action *counterpart = head(partner.pipelineRank);
    if (!counterpart ||
        identify(counterpart->kind, counterpart->stage, counterpart->microbatch,
                 isTransport(counterpart->kind) ? counterpart->peer_stage : 0,
                 counterpart->kind == ActionKind::Reduce ? counterpart->bucket : 0) != partner.action)
      return false; // It wakes this rank when it gets there.
    if (std::string before = missing(*counterpart); !before.empty())
      return invalid(schedule, toString(*counterpart) + " comes before " + before);
  }
  for (const Partner &partner : partners) {
    if (Error error = finish(partner.pipelineRank))
      return error;
    awake.push_back(partner.pipelineRank);
  }
  return true;
}

/// Advances a pipeline rank until it waits for another.
Error Simulation::advance(uint32_t pipelineRank) {
  while (const Action *action = head(pipelineRank)) {
    if (std::string before = missing(*action); !before.empty())
      return invalid(schedule, toString(*action) + " comes before " + before);
    llvm::Expected<bool> met = meet(*action);
    if (!met)
      return met.takeError();
    if (!*met)
      return Error::success();
    if (Error error = finish(pipelineRank))
      return error;
  }
  return Error::success();
}

Error Simulation::deadlock() const {
  static constexpr size_t kShown = 8;
  llvm::SmallVector<std::string> waiting;
  for (uint32_t pipelineRank = 0; pipelineRank < next.size(); ++pipelineRank)
    if (const Action *action = head(pipelineRank))
      waiting.push_back("rank " + std::to_string(pipelineRank * ranksPerDeviceGroup(plan)) + " at " +
                        toString(*action));
  if (waiting.empty())
    return Error::success();
  std::string text = llvm::join(llvm::ArrayRef(waiting).take_front(kShown), ", ");
  return invalid(schedule, "it cannot finish: " + text + (waiting.size() > kShown ? ", …" : "") +
                               " would wait for ever");
}

uint64_t Simulation::count(ActionKind kind, uint32_t stage) const {
  auto found = runs.find({kind, stage});
  return found == runs.end() ? 0 : found->second;
}

/// Every program must run once per micro-batch, norm and update once. That buckets are reduced before is
/// checked when they run (`missingReductions`).
Error Simulation::checkComplete() const {
  static constexpr std::pair<ActionKind, const char *> kKinds[] = {
      {ActionKind::Forward, "forward"},
      {ActionKind::BackwardInput, "backward"},
      {ActionKind::BackwardWeight, "backward for its weights"},
      {ActionKind::Norm, "its norm"},
      {ActionKind::Update, "its update"}};
  for (uint32_t stage = 0; stage < plan.stages.size(); ++stage)
    for (auto [kind, what] : kKinds)
      if (count(kind, stage) != wantedRuns(kind, stage))
        return invalid(schedule, "stage " + llvm::Twine(stage) + " runs " + llvm::Twine(count(kind, stage)) +
                                     " times " + what + ", expected " + llvm::Twine(wantedRuns(kind, stage)) +
                                     " for " + llvm::Twine(schedule.microbatches) + " micro-batches");
  return Error::success();
}

Error Simulation::run() {
  for (uint32_t pipelineRank = 0; pipelineRank < next.size(); ++pipelineRank)
    awake.push_back(pipelineRank);
  while (!awake.empty()) {
    uint32_t pipelineRank = awake.back();
    awake.pop_back();
    if (Error error = advance(pipelineRank))
      return error;
  }
  if (Error error = deadlock())
    return error;
  return checkComplete();
}

Error checkSchedule(const Plan &plan, const Schedule &schedule) {
  if (Error error = checkStructure(plan, schedule))
    return error;
  return Simulation(plan, schedule).run();
}

} // namespace cleave::plan
