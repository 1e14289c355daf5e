//===- Schedules.cpp - Schedule generators --------------------------------===//
#include "partitioner/simulation/Schedules.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cassert>
#include <memory>
#include <optional>
#include <tuple>

namespace cleave {

using plan::ActionKind;

namespace {
/// A pass of a stage for a micro-batch. If backward passes are not split, BackwardInput stands for both
/// halves.
struct Pass {
  ActionKind kind;
  uint32_t stage, microbatch;
};

/// An event on one rank, or between two.
struct Event {
  uint32_t time;
  /// At equal times, transfers come before the passes that they enable.
  bool isPass;
  uint32_t microbatch, stage, peer;
  /// Kind of the pass.
  ActionKind kind;
  auto key() const { return std::tie(time, isPass, microbatch, stage, peer); }
  bool operator<(const Event &other) const { return key() < other.key(); }
};

/// Lays passes and transfers out in time; each pass begins as early as its rank's order allows.
class Layout {
public:
  Layout(const Pipeline &pipeline, bool isSplit);
  /// \param orders  by rank: its passes.
  std::vector<Event> run(llvm::ArrayRef<std::vector<Pass>> orders);

private:
  /// By stage and micro-batch: end of the pass; 0 if it has not begun.
  using Ends = std::vector<std::vector<uint32_t>>;

  /// Nothing if the pass needs one that is not laid out yet.
  std::optional<uint32_t> beginOf(const Pass &pass) const;
  void add(const Pass &pass, uint32_t begin);

  const Pipeline &pipeline;
  bool isSplit;
  /// By stage: stages that send to it, and stages that it sends to; activations, and gradients.
  std::vector<std::vector<uint32_t>> sources, targets, gradientSources, gradientTargets;
  std::vector<uint32_t> rankIsFree;
  Ends forwardEnds, backwardEnds;
  std::vector<Event> events;
};
} // namespace

Layout::Layout(const Pipeline &pipeline, bool isSplit)
    : pipeline(pipeline), isSplit(isSplit), sources(pipeline.stages), targets(sources),
      gradientSources(sources), gradientTargets(sources), rankIsFree(pipeline.pipelineRanks),
      forwardEnds(pipeline.stages, std::vector<uint32_t>(pipeline.microbatches)), backwardEnds(forwardEnds) {
  for (const plan::Transfer &transfer : pipeline.transfers) {
    assert(transfer.from < transfer.to && transfer.to < pipeline.stages && "transfers go to later stages");
    sources[transfer.to].push_back(transfer.from);
    targets[transfer.from].push_back(transfer.to);
  }
  if (!pipeline.gradientTransfers) {
    gradientSources = targets;
    gradientTargets = sources;
    return;
  }
  for (const plan::Transfer &transfer : *pipeline.gradientTransfers) {
    assert(transfer.to < transfer.from && transfer.from < pipeline.stages &&
           "gradients go to earlier stages");
    gradientSources[transfer.to].push_back(transfer.from);
    gradientTargets[transfer.from].push_back(transfer.to);
  }
}

std::optional<uint32_t> Layout::beginOf(const Pass &pass) const {
  uint32_t begin = rankIsFree[pass.stage % pipeline.pipelineRanks];
  bool isReady = true;
  auto follow = [&](const Ends &ends, llvm::ArrayRef<uint32_t> stages) {
    for (uint32_t stage : stages) {
      isReady &= ends[stage][pass.microbatch] != 0;
      begin = std::max(begin, ends[stage][pass.microbatch]);
    }
  };
  if (pass.kind == ActionKind::Forward)
    follow(forwardEnds, sources[pass.stage]);
  if (pass.kind == ActionKind::BackwardInput) {
    follow(forwardEnds, pass.stage);
    follow(backwardEnds, gradientSources[pass.stage]);
  }
  return isReady ? std::optional(begin) : std::nullopt;
}

void Layout::add(const Pass &pass, uint32_t begin) {
  const bool isForward = pass.kind == ActionKind::Forward, isWeight = pass.kind == ActionKind::BackwardWeight;
  const uint32_t end = begin + (isForward || isWeight || isSplit ? 1 : 2);
  events.push_back({begin, /*isPass=*/true, pass.microbatch, pass.stage, /*peer=*/0, pass.kind});
  rankIsFree[pass.stage % pipeline.pipelineRanks] = end;
  if (isWeight)
    return;
  (isForward ? forwardEnds : backwardEnds)[pass.stage][pass.microbatch] = end;
  for (uint32_t peer : (isForward ? targets : gradientTargets)[pass.stage])
    // Stages of one rank exchange values without actions.
    if (peer % pipeline.pipelineRanks != pass.stage % pipeline.pipelineRanks)
      events.push_back({end, /*isPass=*/false, pass.microbatch, pass.stage, peer,
                        isForward ? ActionKind::Send : ActionKind::SendGrad});
}

std::vector<Event> Layout::run(llvm::ArrayRef<std::vector<Pass>> orders) {
  std::vector<size_t> next(orders.size());
  for (bool isMoving = true; isMoving;) {
    isMoving = false;
    for (auto [order, at] : llvm::zip(orders, next))
      for (; at < order.size(); ++at) {
        std::optional<uint32_t> begin = beginOf(order[at]);
        if (!begin)
          break;
        add(order[at], *begin);
        isMoving = true;
      }
  }
  assert(llvm::all_of(llvm::zip(orders, next),
                      [](auto each) { return std::get<0>(each).size() == std::get<1>(each); }) &&
         "orders wait for each other in a circle");
  llvm::sort(events);
  return std::move(events);
}

//===- Tables -------------------------------------------------------------===//

/// Appends an action to all ranks that share the stage.
static void append(plan::Schedule &schedule, const Pipeline &pipeline, ActionKind kind, uint32_t stage,
                   uint32_t microbatch, uint32_t peer) {
  const uint32_t first = stage % pipeline.pipelineRanks * pipeline.ranksPerDeviceGroup;
  for (uint32_t rank = first; rank < first + pipeline.ranksPerDeviceGroup; ++rank) {
    auto action = std::make_unique<plan::Action>();
    action->kind = kind;
    action->stage = stage;
    action->microbatch = microbatch;
    action->peer_stage = peer;
    schedule.ranks[rank]->actions.push_back(std::move(action));
  }
}

static plan::Schedule dealOut(const Pipeline &pipeline, llvm::StringRef name,
                              llvm::ArrayRef<std::vector<Pass>> orders, bool isSplit) {
  plan::Schedule schedule;
  schedule.signature = pipeline.signature;
  schedule.name = name.str();
  schedule.microbatches = pipeline.microbatches;
  for (uint32_t rank = 0; rank < pipeline.pipelineRanks * pipeline.ranksPerDeviceGroup; ++rank) {
    schedule.ranks.push_back(std::make_unique<plan::RankActions>());
    schedule.ranks.back()->rank = rank;
  }
  for (const Event &event : Layout(pipeline, isSplit).run(orders)) {
    append(schedule, pipeline, event.kind, event.stage, event.microbatch, event.peer);
    if (plan::isSend(event.kind))
      append(schedule, pipeline, plan::counterpartOf(event.kind), event.peer, event.microbatch, event.stage);
    if (event.kind == ActionKind::BackwardInput && !isSplit)
      append(schedule, pipeline, ActionKind::BackwardWeight, event.stage, event.microbatch, /*peer=*/0);
  }
  return schedule;
}

//===- Orders -------------------------------------------------------------===//

static uint32_t stagesPerRank(const Pipeline &pipeline) {
  return llvm::divideCeil(pipeline.stages, pipeline.pipelineRanks);
}

static bool exists(const Pipeline &pipeline, const Pass &pass) {
  return pass.stage < pipeline.stages && pass.microbatch < pipeline.microbatches;
}

/// One pass of each stage of the rank for each micro-batch, in groups of `ranks` micro-batches, one stage
/// after the other. All groups are counted as full and all ranks as having equally many stages, so some
/// passes do not exist.
static std::vector<Pass> passesOf(const Pipeline &pipeline, uint32_t rank, ActionKind kind) {
  std::vector<Pass> passes;
  const uint32_t stages = stagesPerRank(pipeline);
  for (uint32_t group = 0; group < pipeline.microbatches; group += pipeline.pipelineRanks)
    for (uint32_t index = 0; index < stages; ++index)
      for (uint32_t microbatch = group; microbatch < group + pipeline.pipelineRanks; ++microbatch) {
        const uint32_t own = kind == ActionKind::Forward ? index : stages - 1 - index;
        passes.push_back({kind, own * pipeline.pipelineRanks + rank, microbatch});
      }
  return passes;
}

/// `warmUp` forward passes, then forward and backward passes in turn, then the rest.
///
/// \param weightDelay  number of backward passes by which W follows B; nothing: they are not split.
static std::vector<Pass> orderOf(const Pipeline &pipeline, uint32_t rank, size_t warmUp,
                                 std::optional<size_t> weightDelay) {
  const std::vector<Pass> forward = passesOf(pipeline, rank, ActionKind::Forward),
                          backward = passesOf(pipeline, rank, ActionKind::BackwardInput);
  warmUp = std::min(warmUp, forward.size());
  std::vector<Pass> order;
  auto add = [&](const std::vector<Pass> &passes, size_t step, size_t delay, ActionKind kind) {
    if (step < delay || step - delay >= passes.size())
      return;
    Pass pass = passes[step - delay];
    pass.kind = kind;
    if (exists(pipeline, pass))
      order.push_back(pass);
  };
  for (size_t step = 0; step < forward.size() + warmUp + weightDelay.value_or(0); ++step) {
    add(forward, step, 0, ActionKind::Forward);
    add(backward, step, warmUp, ActionKind::BackwardInput);
    if (weightDelay)
      add(backward, step, warmUp + *weightDelay, ActionKind::BackwardWeight);
  }
  return order;
}

static size_t warmUpOf(TrainingSchedule kind, const Pipeline &pipeline, uint32_t rank) {
  const size_t later = pipeline.pipelineRanks - 1 - rank;
  switch (kind) {
  case TrainingSchedule::Gpipe:
    return SIZE_MAX;
  case TrainingSchedule::OneForwardOneBackward:
  case TrainingSchedule::ZeroBubbleH1:
    return later;
  case TrainingSchedule::Interleaved:
    return 2 * later + size_t(stagesPerRank(pipeline) - 1) * pipeline.pipelineRanks;
  }
  llvm_unreachable("all kinds are above");
}

llvm::StringRef nameOf(TrainingSchedule kind) {
  static constexpr llvm::StringLiteral names[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
  return names[static_cast<size_t>(kind)];
}

std::optional<TrainingSchedule> trainingScheduleNamed(llvm::StringRef name) {
  for (auto kind : {TrainingSchedule::Gpipe, TrainingSchedule::OneForwardOneBackward,
                    TrainingSchedule::Interleaved, TrainingSchedule::ZeroBubbleH1})
    if (nameOf(kind) == name)
      return kind;
  return std::nullopt;
}

void appendUpdates(plan::Schedule &schedule, const plan::Plan &plan) {
  auto act = [&](uint32_t stage, ActionKind kind, uint32_t bucket) {
    for (uint32_t rank : plan.stages[stage]->ranks) {
      auto action = std::make_unique<plan::Action>();
      action->kind = kind;
      action->stage = stage;
      action->bucket = bucket;
      schedule.ranks[rank]->actions.push_back(std::move(action));
    }
  };
  const std::set<uint32_t> ofNorm = plan::bucketsOfNorm(plan, schedule.signature);
  auto reduce = [&](bool isOfNorm) {
    for (auto [index, bucket] : llvm::enumerate(plan.buckets))
      for (const auto &part : bucket->parts)
        if ((ofNorm.count(index) != 0) == isOfNorm)
          act(part->stage, ActionKind::Reduce, index);
  };
  auto run = [&](ActionKind kind) {
    for (const auto &program : plan.programs)
      if (program->signature == schedule.signature && program->phase == plan::phaseOf(kind) &&
          program->tp_rank == 0)
        act(program->stage, kind, 0);
  };
  reduce(/*isOfNorm=*/false);
  run(ActionKind::Norm);
  reduce(/*isOfNorm=*/true);
  run(ActionKind::Update);
}

plan::Schedule gpipe(const Pipeline &pipeline) {
  assert(pipeline.pipelineRanks <= pipeline.stages && "every rank has a stage");
  std::vector<std::vector<Pass>> orders;
  for (uint32_t rank = 0; rank < pipeline.pipelineRanks; ++rank) {
    orders.push_back(passesOf(pipeline, rank, ActionKind::Forward));
    llvm::erase_if(orders.back(), [&](const Pass &pass) { return !exists(pipeline, pass); });
  }
  return dealOut(pipeline, pipeline.pipelineRanks == pipeline.stages ? "gpipe" : "interleaved", orders,
                 /*isSplit=*/false);
}

llvm::Expected<plan::Schedule> makeTrainingSchedule(TrainingSchedule kind, const Pipeline &pipeline) {
  assert(pipeline.pipelineRanks <= pipeline.stages && "every rank has a stage");
  const bool isSplit = kind == TrainingSchedule::ZeroBubbleH1;
  if ((isSplit || kind == TrainingSchedule::OneForwardOneBackward) &&
      pipeline.stages != pipeline.pipelineRanks)
    return llvm::createStringError(
        llvm::formatv("schedule {0}: found {1} stages on {2} ranks, expected one a rank; use "
                      "interleaved",
                      nameOf(kind), pipeline.stages, pipeline.pipelineRanks)
            .str());
  std::vector<std::vector<Pass>> orders;
  for (uint32_t rank = 0; rank < pipeline.pipelineRanks; ++rank)
    orders.push_back(orderOf(pipeline, rank, warmUpOf(kind, pipeline, rank),
                             isSplit ? std::optional<size_t>(rank) : std::nullopt));
  return dealOut(pipeline, nameOf(kind), orders, isSplit);
}

} // namespace cleave
