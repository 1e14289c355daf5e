//===- Schedule.cpp - Transfers between stages, and deadlock checks -------===//
#include "codegen/plan/Schedule.h"
#include "codegen/plan/Batch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <limits>
#include <map>
#include <set>
#include <tuple>

namespace cleave::plan {

using llvm::Error;

std::vector<Transfer> transfers(const Plan &plan, uint32_t signature) {
  std::map<std::pair<uint32_t, uint32_t>, Transfer> byStages;
  for (const auto &program : plan.programs) {
    if (program->signature != signature || program->tp_rank != 0)
      continue;
    for (auto [index, input] : llvm::enumerate(program->inputs)) {
      if (input->source != Source::Stage)
        continue;
      Transfer &transfer = byStages[{input->stage, program->stage}];
      transfer.from = input->stage;
      transfer.to = program->stage;
      transfer.results.push_back(input->index);
      transfer.inputs.push_back(index);
    }
  }
  std::vector<Transfer> ordered;
  for (auto &[stages, transfer] : byStages)
    ordered.push_back(std::move(transfer));
  return ordered;
}

uint32_t tpRankOf(const Plan &plan, uint32_t rank) { return rank % plan.mesh->tp; }

uint32_t dpRankOf(const Plan &plan, uint32_t rank) { return rank / plan.mesh->tp % plan.mesh->dp; }

std::string toString(const Action &action) {
  static constexpr char kLetters[] = "FBWSRA"; // A: the gradients of a stage are all-reduced.
  std::string text(1, kLetters[static_cast<size_t>(action.kind)]);
  text += std::to_string(action.stage) + "." + std::to_string(action.microbatch);
  if (action.kind == ActionKind::Send)
    text += ">" + std::to_string(action.peer_stage);
  if (action.kind == ActionKind::Recv)
    text += "<" + std::to_string(action.peer_stage);
  return text;
}

static Error invalid(const Schedule &schedule, const llvm::Twine &what) {
  return llvm::createStringError("schedule '" + schedule.name + "': " + what);
}

/// Runs of each stage: micro-batches times slices.
static uint64_t runsPerStage(const Schedule &schedule) {
  return static_cast<uint64_t>(schedule.microbatches) * schedule.slices;
}

/// Number of ranks that share their stages: the data-parallel and tensor-parallel ranks of a pipeline rank.
static uint32_t ranksPerDeviceGroup(const Plan &plan) { return plan.mesh->dp * plan.mesh->tp; }

/// The pipeline rank of a stage.
static uint32_t pipelineRankOf(const Plan &plan, uint32_t stage) {
  return plan.stages[stage]->ranks.front() / ranksPerDeviceGroup(plan);
}

//===- Structure ----------------------------------------------------------===//

static bool isTransport(const Action &action) {
  return action.kind == ActionKind::Send || action.kind == ActionKind::Recv;
}

static bool areEqual(const Action &a, const Action &b) {
  return std::tie(a.kind, a.stage, a.microbatch, a.peer_stage) ==
         std::tie(b.kind, b.stage, b.microbatch, b.peer_stage);
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
  if (action->microbatch >= runsPerStage(schedule))
    return refuse(toString(*action) + ": there are " + llvm::Twine(runsPerStage(schedule)) +
                  " micro-batches");
  if (!isTransport(*action))
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
  size_t ranks = static_cast<size_t>(plan.mesh->pp) * ranksPerDeviceGroup(plan);
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
    if (!llvm::equal(actions->actions, first.actions, [](auto &a, auto &b) { return areEqual(*a, *b); }))
      return invalid(schedule, "rank " + llvm::Twine(rank) + " does not act as rank " +
                                   llvm::Twine(first.rank) + ", which has the same stages");
  }
  return Error::success();
}

//===- Simulation ---------------------------------------------------------===//

namespace {
/// Simulates a schedule with one rank per pipeline rank, and with sends that block until their receive.
class Simulation {
public:
  Simulation(const Plan &plan, const Schedule &schedule);
  Error run();

private:
  using Done = std::tuple<ActionKind, uint32_t, uint32_t, uint32_t>;

  const Action *head(uint32_t pipelineRank) const;
  bool isDone(ActionKind kind, uint32_t stage, uint32_t run, uint32_t peer = 0) const;
  uint64_t count(ActionKind kind, uint32_t stage) const;
  /// Name of an action that must come before `action` and has not run; empty if there is none.
  std::string missing(const Action &action) const;
  std::string missingInput(const Action &action, ActionKind compute, llvm::ArrayRef<uint32_t> sources) const;
  std::string missingForSend(const Action &action) const;
  Error finish(uint32_t pipelineRank);
  Error advance(uint32_t pipelineRank);
  Error deadlock() const;
  Error checkComplete() const;

  const Plan &plan;
  const Schedule &schedule;
  /// By stage: stages that send to it, and stages that it sends to.
  std::vector<std::vector<uint32_t>> sources, targets;
  /// By stage: true if its backward passes for weights are separate.
  std::vector<bool> hasWeightPasses;
  std::vector<size_t> next;
  std::vector<uint32_t> awake;
  std::set<Done> done;
  /// By kind of pass and stage: how often it ran.
  std::map<std::pair<ActionKind, uint32_t>, uint64_t> runs;
};
} // namespace

Simulation::Simulation(const Plan &plan, const Schedule &schedule)
    : plan(plan), schedule(schedule), sources(plan.stages.size()), targets(plan.stages.size()),
      hasWeightPasses(plan.stages.size()), next(plan.mesh->pp) {
  for (const Transfer &transfer : transfers(plan, schedule.signature)) {
    sources[transfer.to].push_back(transfer.from);
    targets[transfer.from].push_back(transfer.to);
  }
  for (const auto &rank : schedule.ranks)
    for (const auto &action : rank->actions)
      if (action->kind == ActionKind::BackwardWeight)
        hasWeightPasses[action->stage] = true;
}

const Action *Simulation::head(uint32_t pipelineRank) const {
  const auto &actions =
      schedule.ranks[static_cast<size_t>(pipelineRank) * ranksPerDeviceGroup(plan)]->actions;
  return next[pipelineRank] < actions.size() ? actions[next[pipelineRank]].get() : nullptr;
}

bool Simulation::isDone(ActionKind kind, uint32_t stage, uint32_t run, uint32_t peer) const {
  return done.count({kind, stage, run, peer}) != 0;
}

static std::string nameOf(ActionKind kind, uint32_t stage, uint32_t run, uint32_t peer = 0) {
  Action action;
  action.kind = kind;
  action.stage = stage;
  action.microbatch = run;
  action.peer_stage = peer;
  return toString(action);
}

/// Values come by a receive, or from a stage of the same rank once it has run.
std::string Simulation::missingInput(const Action &action, ActionKind compute,
                                     llvm::ArrayRef<uint32_t> from) const {
  for (uint32_t source : from) {
    bool isLocal = pipelineRankOf(plan, source) == pipelineRankOf(plan, action.stage);
    if (isLocal && !isDone(compute, source, action.microbatch))
      return nameOf(compute, source, action.microbatch);
    if (!isLocal && !isDone(ActionKind::Recv, action.stage, action.microbatch, source))
      return nameOf(ActionKind::Recv, action.stage, action.microbatch, source);
  }
  return {};
}

/// Activations follow the transfers, gradients go back.
std::string Simulation::missingForSend(const Action &action) const {
  bool isForward = llvm::is_contained(targets[action.stage], action.peer_stage);
  ActionKind compute = isForward ? ActionKind::Forward : ActionKind::BackwardInput;
  if (!isForward && !llvm::is_contained(sources[action.stage], action.peer_stage))
    return "any value to send";
  return isDone(compute, action.stage, action.microbatch) ? ""
                                                          : nameOf(compute, action.stage, action.microbatch);
}

std::string Simulation::missing(const Action &action) const {
  switch (action.kind) {
  case ActionKind::Forward:
    return missingInput(action, ActionKind::Forward, sources[action.stage]);
  case ActionKind::BackwardInput:
    if (!isDone(ActionKind::Forward, action.stage, action.microbatch))
      return nameOf(ActionKind::Forward, action.stage, action.microbatch);
    return missingInput(action, ActionKind::BackwardInput, targets[action.stage]);
  case ActionKind::BackwardWeight:
    if (!isDone(ActionKind::BackwardInput, action.stage, action.microbatch))
      return nameOf(ActionKind::BackwardInput, action.stage, action.microbatch);
    return {};
  case ActionKind::Send:
    return missingForSend(action);
  case ActionKind::Reduce: {
    auto isComplete = [&](ActionKind kind) { return count(kind, action.stage) == runsPerStage(schedule); };
    bool all = isComplete(ActionKind::BackwardInput) &&
               (!hasWeightPasses[action.stage] || isComplete(ActionKind::BackwardWeight));
    return all ? "" : "every backward of its stage";
  }
  case ActionKind::Recv:
    return {};
  }
  return {};
}

/// Records the pipeline rank's next action as done.
Error Simulation::finish(uint32_t pipelineRank) {
  const Action &action = *head(pipelineRank);
  uint32_t peer = isTransport(action) ? action.peer_stage : 0;
  if (!done.insert({action.kind, action.stage, action.microbatch, peer}).second)
    return invalid(schedule, toString(action) + " stands there twice");
  if (!isTransport(action))
    ++runs[{action.kind, action.stage}];
  ++next[pipelineRank];
  return Error::success();
}

/// Advances a pipeline rank until it waits for another.
Error Simulation::advance(uint32_t pipelineRank) {
  while (const Action *action = head(pipelineRank)) {
    if (std::string before = missing(*action); !before.empty())
      return invalid(schedule, toString(*action) + " comes before " + before);
    if (isTransport(*action)) {
      uint32_t other = pipelineRankOf(plan, action->peer_stage);
      const Action *counterpart = head(other);
      ActionKind wanted = action->kind == ActionKind::Send ? ActionKind::Recv : ActionKind::Send;
      if (!counterpart ||
          std::tie(counterpart->kind, counterpart->stage, counterpart->microbatch, counterpart->peer_stage) !=
              std::tie(wanted, action->peer_stage, action->microbatch, action->stage))
        return Error::success(); // The other one wakes this rank when it gets there.
      if (std::string before = missing(*counterpart); !before.empty())
        return invalid(schedule, toString(*counterpart) + " comes before " + before);
      if (Error error = finish(other))
        return error;
      awake.push_back(other);
    }
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

/// Every stage must run forward once per micro-batch; backward passes the same, or never.
Error Simulation::checkComplete() const {
  bool trains =
      llvm::any_of(runs, [](auto &entry) { return entry.first.first == ActionKind::BackwardInput; });
  for (uint32_t stage = 0; stage < plan.stages.size(); ++stage) {
    uint64_t forward = count(ActionKind::Forward, stage), backward = count(ActionKind::BackwardInput, stage);
    uint64_t weight = count(ActionKind::BackwardWeight, stage);
    auto refuse = [&](uint64_t found, const llvm::Twine &what) {
      return invalid(schedule, "stage " + llvm::Twine(stage) + " runs " + llvm::Twine(found) + " " + what +
                                   ", there are " + llvm::Twine(runsPerStage(schedule)) + " micro-batches");
    };
    if (forward != runsPerStage(schedule))
      return refuse(forward, "times forward");
    if (backward != (trains ? runsPerStage(schedule) : 0))
      return refuse(backward, "times backward");
    if (weight != 0 && weight != runsPerStage(schedule))
      return refuse(weight, "times backward for its weights");
  }
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
