//===- Simulator.cpp - Simulation of pipeline schedules -------------------===//
#include "partitioner/simulation/Simulator.h"

#include "codegen/plan/Schedule.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

namespace cleave {

using llvm::ArrayRef;
using llvm::Error;
using plan::Action;
using plan::ActionKind;

namespace {
/// An action of a rank: kind, stage, micro-batch, peer.
using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>;

/// Progress of a rank.
struct Progress {
  size_t next = 0;
  double free = 0;
  /// Ends of passes, and arrivals of messages.
  llvm::DenseMap<Key, double> ends;
  /// Receives that the rank has reached.
  llvm::DenseSet<Key> posted;
};

class Simulator {
public:
  Simulator(const plan::Schedule &schedule, const PipelineCosts &costs);
  llvm::Expected<SimulationResult> run();

private:
  Error checkCosts() const;
  Error checkActions() const;
  int64_t bytesBetween(uint32_t stage, uint32_t other) const {
    return bytes.lookup(std::minmax(stage, other));
  }
  const Link &linkBetween(uint32_t from, uint32_t to) const;
  int64_t activationOf(uint32_t stage, uint32_t rank) const;
  double secondsOf(const Action &action) const;
  const Action *head(uint32_t rank) const;
  /// The rank of `stage` that `rank` exchanges values with.
  uint32_t counterpartOf(uint32_t rank, uint32_t stage) const {
    return firstRank[stage] + rank % costs.ranksPerDeviceGroup;
  }
  std::optional<double> readyTime(uint32_t rank, const Action &action) const;
  void advance(uint32_t rank);
  std::vector<uint32_t> togetherWith(uint32_t rank, const Action &action) const;
  bool compute(uint32_t rank, const Action &action);
  bool meet(uint32_t rank, const Action &action);
  bool send(uint32_t rank, const Action &action);
  void finish(uint32_t rank, const Action &action, double end);
  Error checkDone() const;
  void endReceives(uint32_t rank);
  Error followValues(uint32_t rank);

  const plan::Schedule &schedule;
  const PipelineCosts &costs;
  /// By stage: stages that send to it, and stages that it sends to.
  std::vector<std::vector<uint32_t>> sources, targets;
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, int64_t> bytes;
  /// By stage: the first of its ranks, and the kind of its last pass.
  std::vector<uint32_t> firstRank;
  std::vector<ActionKind> lastPass;
  /// By bucket: the ranks that reduce it.
  std::map<uint32_t, std::vector<uint32_t>> reducers;
  std::vector<Progress> progress;
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, double> linkIsFree;
  std::vector<uint32_t> awake;
  SimulationResult simulation;
};
} // namespace

static constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();

static bool isTransport(const Action &action) { return plan::isTransport(action.kind); }

static Key keyOf(ActionKind kind, uint32_t stage, uint32_t microbatch, uint32_t peer = 0) {
  return {static_cast<uint32_t>(kind), stage, microbatch, peer};
}

static Key keyOf(const Action &action) {
  const bool reduces = action.kind == ActionKind::Reduce;
  return keyOf(action.kind, reduces ? 0 : action.stage, action.microbatch,
               isTransport(action) ? action.peer_stage
               : reduces           ? action.bucket
                                   : 0);
}

Simulator::Simulator(const plan::Schedule &schedule, const PipelineCosts &costs)
    : schedule(schedule), costs(costs), sources(costs.stages.size()), targets(costs.stages.size()),
      firstRank(costs.stages.size(), kNowhere), lastPass(costs.stages.size(), ActionKind::Forward),
      progress(schedule.ranks.size()) {
  simulation.ranks.resize(schedule.ranks.size());
  for (const TransferSize &transfer : costs.transfers) {
    assert(transfer.from < transfer.to && transfer.to < costs.stages.size() &&
           "transfers go to later stages");
    sources[transfer.to].push_back(transfer.from);
    targets[transfer.from].push_back(transfer.to);
    bytes[{transfer.from, transfer.to}] = transfer.bytes;
  }
  for (auto [rank, actions] : llvm::enumerate(schedule.ranks))
    for (const auto &action : actions->actions)
      if (action->stage < costs.stages.size()) {
        firstRank[action->stage] =
            std::min<uint32_t>(firstRank[action->stage], rank - rank % costs.ranksPerDeviceGroup);
        if (action->kind <= ActionKind::BackwardWeight)
          lastPass[action->stage] = std::max(lastPass[action->stage], action->kind);
        if (action->kind == ActionKind::Reduce)
          reducers[action->bucket].push_back(rank);
      }
}

//===- Input --------------------------------------------------------------===//

static Error invalid(const plan::Schedule &schedule, const llvm::Twine &what) {
  return llvm::createStringError("schedule '" + schedule.name + "': " + what);
}

static bool isAmount(double number) { return std::isfinite(number) && number >= 0; }

static bool isSound(const Link &link) {
  return isAmount(link.latencySeconds) && isAmount(link.bytesPerSecond) && link.bytesPerSecond > 0;
}

Error Simulator::checkCosts() const {
  for (auto [index, stage] : llvm::enumerate(costs.stages))
    if (!isAmount(stage.forward) || !isAmount(stage.inputGradient) || !isAmount(stage.weightGradient) ||
        !isAmount(stage.update) || !isAmount(stage.reduce) || stage.activationBytes < 0)
      return invalid(schedule, "the costs of stage " + llvm::Twine(index) + " are negative or not finite");
  for (auto &[place, bytes] : costs.activationOverrides)
    if (place.first >= costs.stages.size() || bytes < 0)
      return invalid(schedule, "a rank of stage " + llvm::Twine(place.first) +
                                   " has a negative number of bytes, or is of no stage");
  for (const TransferSize &transfer : costs.transfers)
    if (transfer.bytes < 0)
      return invalid(schedule, "stage " + llvm::Twine(transfer.from) + " gives stage " +
                                   llvm::Twine(transfer.to) + " a negative number of bytes");
  if (!isSound(costs.link) ||
      !llvm::all_of(costs.linkOverrides, [](auto &each) { return isSound(each.second); }))
    return invalid(schedule, "a link's latency is negative, or its bandwidth not above 0");
  return Error::success();
}

Error Simulator::checkActions() const {
  for (auto [rank, actions] : llvm::enumerate(schedule.ranks))
    for (const auto &action : actions->actions) {
      auto refuse = [&](const llvm::Twine &what) {
        return invalid(schedule, "rank " + llvm::Twine(rank) + ": " + plan::toString(*action) + what);
      };
      if (action->stage >= costs.stages.size())
        return refuse(": there are costs of " + llvm::Twine(costs.stages.size()) + " stages");
      if (isTransport(*action) && !bytes.contains(std::minmax(action->stage, action->peer_stage)))
        return refuse(": there is nothing to move between these stages");
      if (isTransport(*action) && firstRank[action->peer_stage] == kNowhere)
        return refuse(": no rank has the other stage");
    }
  return Error::success();
}

//===- Time ---------------------------------------------------------------===//

const Link &Simulator::linkBetween(uint32_t from, uint32_t to) const {
  auto unlike = costs.linkOverrides.find({from, to});
  return unlike == costs.linkOverrides.end() ? costs.link : unlike->second;
}

/// Seconds of a pass.
double Simulator::secondsOf(const Action &action) const {
  const StageCost &cost = costs.stages[action.stage];
  switch (action.kind) {
  case ActionKind::Forward:
    return cost.forward;
  case ActionKind::BackwardInput:
    return cost.inputGradient;
  case ActionKind::BackwardWeight:
    return cost.weightGradient;
  case ActionKind::Update:
    return cost.update;
  case ActionKind::Reduce:
    return cost.reduce;
  default:
    return 0;
  }
}

const Action *Simulator::head(uint32_t rank) const {
  const auto &actions = schedule.ranks[rank]->actions;
  return progress[rank].next < actions.size() ? actions[progress[rank].next].get() : nullptr;
}

/// When the rank is free and has what the action needs; nothing if not known yet.
std::optional<double> Simulator::readyTime(uint32_t rank, const Action &action) const {
  const Progress &own = progress[rank];
  double time = own.free;
  bool isReady = true;
  auto after = [&](const Key &key) {
    auto found = own.ends.find(key);
    isReady &= found != own.ends.end();
    if (isReady)
      time = std::max(time, found->second);
  };
  // Values come by a receive, or from a stage of the same rank.
  auto afterValues = [&](ActionKind kind, ArrayRef<uint32_t> stages) {
    for (uint32_t stage : stages) {
      const bool isLocal = firstRank[stage] == firstRank[action.stage];
      const Key receive = keyOf(kind, action.stage, action.microbatch, stage);
      isReady &= isLocal || own.posted.contains(receive);
      after(isLocal ? keyOf(action.kind, stage, action.microbatch) : receive);
    }
  };
  auto afterOwn = [&](ActionKind kind) { after(keyOf(kind, action.stage, action.microbatch)); };
  if (action.kind == ActionKind::Forward)
    afterValues(ActionKind::Recv, sources[action.stage]);
  if (action.kind == ActionKind::BackwardInput) {
    afterOwn(ActionKind::Forward);
    afterValues(ActionKind::RecvGrad, targets[action.stage]);
  }
  if (action.kind == ActionKind::BackwardWeight)
    afterOwn(ActionKind::BackwardInput);
  if (action.kind == ActionKind::Send)
    afterOwn(ActionKind::Forward);
  if (action.kind == ActionKind::SendGrad)
    afterOwn(ActionKind::BackwardInput);
  return isReady ? std::optional(time) : std::nullopt;
}

/// Records the rank's next action, which ends at `end`.
void Simulator::finish(uint32_t rank, const Action &action, double end) {
  Progress &own = progress[rank];
  simulation.ranks[rank].timeline.push_back({action, own.free, end});
  own.ends[keyOf(action)] = own.free = end;
  ++own.next;
}

/// The ranks that begin an action together: those that reduce a bucket, or a tensor-parallel group.
std::vector<uint32_t> Simulator::togetherWith(uint32_t rank, const Action &action) const {
  if (action.kind == ActionKind::Reduce)
    return reducers.find(action.bucket)->second;
  const uint32_t size = costs.tensorParallelSize ? costs.tensorParallelSize : costs.ranksPerDeviceGroup,
                 first = rank - rank % size;
  std::vector<uint32_t> ranks;
  for (uint32_t own = first; own < std::min<uint64_t>(uint64_t(first) + size, progress.size()); ++own)
    ranks.push_back(own);
  return ranks;
}

/// Runs a pass once all ranks that begin it together have reached it.
bool Simulator::compute(uint32_t rank, const Action &action) {
  const std::vector<uint32_t> ranks = togetherWith(rank, action);
  double begin = 0;
  for (uint32_t own : ranks) {
    const Action *next = head(own);
    const auto ready = next && keyOf(*next) == keyOf(action) ? readyTime(own, *next) : std::nullopt;
    if (!ready)
      return false;
    begin = std::max(begin, *ready);
  }
  const double seconds = secondsOf(action);
  for (uint32_t own : ranks) {
    simulation.ranks[own].busySeconds += seconds;
    progress[own].free = begin;
    finish(own, *head(own), begin + seconds);
    if (own != rank)
      awake.push_back(own);
  }
  return true;
}

/// Runs a send and its receive once both ranks have reached them.
bool Simulator::meet(uint32_t rank, const Action &action) {
  const bool sends = plan::isSend(action.kind);
  const uint32_t other = counterpartOf(rank, action.peer_stage);
  const Action *partner = head(other);
  const Key wanted =
      keyOf(plan::counterpartOf(action.kind), action.peer_stage, action.microbatch, action.stage);
  if (!partner || keyOf(*partner) != wanted)
    return false;
  std::optional<double> ready = readyTime(rank, action), otherReady = readyTime(other, *partner);
  if (!ready || !otherReady)
    return false;
  const Link &link = sends ? linkBetween(rank, other) : linkBetween(other, rank);
  const double end = std::max(*ready, *otherReady) + link.latencySeconds +
                     bytesBetween(action.stage, action.peer_stage) / link.bytesPerSecond;
  progress[sends ? other : rank].posted.insert(sends ? wanted : keyOf(action));
  finish(other, *partner, end);
  finish(rank, action, end);
  awake.push_back(other);
  return true;
}

/// Runs a send that does not block its rank.
bool Simulator::send(uint32_t rank, const Action &action) {
  std::optional<double> ready = readyTime(rank, action);
  if (!ready)
    return false;
  const uint32_t other = counterpartOf(rank, action.peer_stage);
  const Link &link = linkBetween(rank, other);
  double &linkFree = linkIsFree[{rank, other}];
  const double departure = std::max(*ready, linkFree);
  linkFree = departure + bytesBetween(action.stage, action.peer_stage) / link.bytesPerSecond;
  const double arrival = linkFree + link.latencySeconds;
  progress[other]
      .ends[keyOf(plan::counterpartOf(action.kind), action.peer_stage, action.microbatch, action.stage)] =
      arrival;
  simulation.ranks[rank].timeline.push_back({action, departure, arrival});
  ++progress[rank].next;
  awake.push_back(other);
  return true;
}

/// Advances a rank until it waits for another one, which will wake it.
void Simulator::advance(uint32_t rank) {
  while (const Action *action = head(rank)) {
    if (!isTransport(*action)) {
      if (!compute(rank, *action))
        return;
    } else if (!costs.overlapsTransfers) {
      if (!meet(rank, *action))
        return;
    } else if (plan::isSend(action->kind)) {
      if (!send(rank, *action))
        return;
    } else {
      progress[rank].posted.insert(keyOf(*action));
      simulation.ranks[rank].timeline.push_back({*action, progress[rank].free, progress[rank].free});
      ++progress[rank].next;
    }
  }
}

/// Every rank must be at its end, and everything to receive must have been sent.
Error Simulator::checkDone() const {
  static constexpr size_t kShown = 8;
  std::vector<std::string> waiting;
  for (uint32_t rank = 0; rank < progress.size(); ++rank) {
    const Action *action = head(rank);
    for (const TimedAction &timed : simulation.ranks[rank].timeline)
      if (!action && plan::isReceive(timed.action.kind) && !progress[rank].ends.contains(keyOf(timed.action)))
        action = &timed.action;
    if (action)
      waiting.push_back("rank " + std::to_string(rank) + " at " + plan::toString(*action));
  }
  if (waiting.empty())
    return Error::success();
  return invalid(schedule, "it cannot finish: " + llvm::join(ArrayRef(waiting).take_front(kShown), ", ") +
                               (waiting.size() > kShown ? ", …" : "") + " would wait for ever");
}

/// Ends the receives that were posted before their messages arrived.
void Simulator::endReceives(uint32_t rank) {
  for (TimedAction &timed : simulation.ranks[rank].timeline)
    if (plan::isReceive(timed.action.kind))
      timed.end = std::max(timed.begin, progress[rank].ends.lookup(keyOf(timed.action)));
}

//===- Memory -------------------------------------------------------------===//

namespace {
/// Bytes that are allocated (above 0) or freed at a time.
struct Change {
  double time;
  int64_t bytes;
  int32_t inFlight;
};
} // namespace

int64_t Simulator::activationOf(uint32_t stage, uint32_t rank) const {
  auto unlike = costs.activationOverrides.find({stage, rank % costs.ranksPerDeviceGroup});
  return unlike == costs.activationOverrides.end() ? costs.stages[stage].activationBytes : unlike->second;
}

/// Limit of the bytes of a rank; more are not counted.
static constexpr int64_t kMaxBytes = int64_t(1) << 62;

/// Changes at one time count in the order of `changes`. False if there are too many bytes.
static bool accumulate(std::vector<Change> &changes, RankSimulation &rank) {
  llvm::stable_sort(changes, [](const Change &a, const Change &b) { return a.time < b.time; });
  LiveValues now{0, 0, 0};
  for (const Change &change : changes) {
    if (change.bytes == 0 && change.inFlight == 0)
      continue;
    if (std::max(std::abs(now.bytes), std::abs(change.bytes)) > kMaxBytes)
      return false;
    now = {change.time, now.inFlight + change.inFlight, now.bytes + change.bytes};
    rank.live.push_back(now);
    rank.peakInFlight = std::max(rank.peakInFlight, now.inFlight);
    rank.peakBytes = std::max(rank.peakBytes, now.bytes);
  }
  return rank.peakBytes <= kMaxBytes;
}

/// A value waits from the end of the action that makes or receives it to its send, or to the beginning of the
/// forward pass that uses it, whose activations then include it. A gradient waits to the end of the backward
/// pass that uses it.
Error Simulator::followValues(uint32_t rank) {
  std::vector<Change> changes;
  for (const TimedAction &timed : simulation.ranks[rank].timeline) {
    const Action &action = timed.action;
    const int64_t activation = activationOf(action.stage, rank);
    auto change = [&](double time, ArrayRef<uint32_t> stages, int sign) {
      for (uint32_t stage : stages)
        changes.push_back({time, sign * bytesBetween(action.stage, stage), 0});
    };
    if (plan::isSend(action.kind))
      change(timed.end, action.peer_stage, -1);
    if (plan::isReceive(action.kind))
      change(costs.overlapsTransfers ? timed.begin : timed.end, action.peer_stage, 1);
    if (action.kind == ActionKind::Forward) {
      change(timed.begin, sources[action.stage], -1);
      changes.push_back({timed.begin, activation, 1});
    }
    if (action.kind == ActionKind::BackwardInput)
      change(timed.end, targets[action.stage], -1);
    if (action.kind == lastPass[action.stage])
      changes.push_back({timed.end, -activation, -1});
    if (action.kind == ActionKind::Forward)
      change(timed.end, targets[action.stage], 1);
    if (action.kind == ActionKind::BackwardInput)
      change(timed.end, sources[action.stage], 1);
  }
  if (!accumulate(changes, simulation.ranks[rank]))
    return invalid(schedule, "rank " + llvm::Twine(rank) + " would hold more than 2^62 bytes");
  return Error::success();
}

std::vector<MemoryStep> memoryOverTime(const RankSimulation &rank, int64_t base) {
  std::vector<MemoryStep> steps{{0, base}};
  for (size_t next = 0; next < rank.live.size();) {
    const double time = rank.live[next].time;
    int64_t most = 0, last = 0;
    for (; next < rank.live.size() && rank.live[next].time == time; ++next) {
      last = base + rank.live[next].bytes;
      most = std::max(most, last);
    }
    // Values present at the beginning have no time before it.
    if (time == 0)
      steps.clear();
    if (most > last && (steps.empty() || most > steps.back().bytes))
      steps.push_back({time, most});
    if (steps.empty() || last != steps.back().bytes)
      steps.push_back({time, last});
  }
  return steps;
}

//===- Simulation ---------------------------------------------------------===//

llvm::Expected<SimulationResult> Simulator::run() {
  if (Error error = checkCosts())
    return error;
  if (Error error = checkActions())
    return error;
  for (uint32_t rank = 0; rank < progress.size(); ++rank)
    awake.push_back(rank);
  while (!awake.empty()) {
    const uint32_t rank = awake.back();
    awake.pop_back();
    advance(rank);
  }
  if (Error error = checkDone())
    return error;
  for (uint32_t rank = 0; rank < progress.size(); ++rank) {
    endReceives(rank);
    for (const TimedAction &timed : simulation.ranks[rank].timeline)
      simulation.seconds = std::max(simulation.seconds, timed.end);
    if (Error error = followValues(rank))
      return error;
  }
  return std::move(simulation);
}

llvm::Expected<SimulationResult> simulate(const plan::Schedule &schedule, const PipelineCosts &costs) {
  return Simulator(schedule, costs).run();
}

} // namespace cleave
