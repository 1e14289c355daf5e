//===- Schedules.cpp - Schedule generators --------------------------------===//
#include "partitioner/Schedules.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cassert>
#include <memory>
#include <tuple>

namespace cleave {

namespace {
/// Something that happens in one rank, or between two.
struct Event {
  /// Counted in forward passes, all taken to last equally long.
  uint32_t time;
  /// At one time, transfers come before what they make possible.
  bool isForward;
  uint32_t microbatch, stage, peer;
  auto key() const { return std::tie(time, isForward, microbatch, stage, peer); }
  bool operator<(const Event &other) const { return key() < other.key(); }
};
} // namespace

/// Of all tensor ranks of `rank`.
static void append(plan::Schedule &schedule, uint32_t tp, uint32_t rank, plan::ActionKind kind, uint32_t stage, uint32_t microbatch,
                   uint32_t peer) {
  for (uint32_t each = rank * tp; each < (rank + 1) * tp; ++each) {
    auto action = std::make_unique<plan::Action>();
    action->kind = kind;
    action->stage = stage;
    action->microbatch = microbatch;
    action->peer = peer;
    schedule.ranks[each]->actions.push_back(std::move(action));
  }
}

/// Forward passes and transfers, in order of time.
static std::vector<Event> simulate(uint32_t stages, uint32_t ranks, uint32_t microbatches,
                                   llvm::ArrayRef<plan::Transfer> transfers) {
  std::vector<Event> events;
  std::vector<uint32_t> rankIsFree(ranks, 0);
  std::vector<std::vector<uint32_t>> ends(stages, std::vector<uint32_t>(microbatches, 0));
  for (uint32_t group = 0; group < microbatches; group += ranks)
    for (uint32_t stage = 0; stage < stages; ++stage)
      for (uint32_t microbatch = group; microbatch < std::min(group + ranks, microbatches); ++microbatch) {
        uint32_t start = rankIsFree[stage % ranks];
        for (const plan::Transfer &transfer : transfers)
          if (transfer.to == stage)
            start = std::max(start, ends[transfer.from][microbatch]);
        events.push_back({start, /*isForward=*/true, microbatch, stage, /*peer=*/0});
        rankIsFree[stage % ranks] = ends[stage][microbatch] = start + 1;
        for (const plan::Transfer &transfer : transfers)
          // Stages of one rank hand over without actions.
          if (transfer.from == stage && transfer.to % ranks != stage % ranks)
            events.push_back({start + 1, /*isForward=*/false, microbatch, stage, transfer.to});
      }
  llvm::sort(events);
  return events;
}

// All actions are dealt out in one global order, and a send stands in it right beside its receive, so the first transfer
// not yet done is always the next one for both of its ranks: whatever has to wait, something can go on.
plan::Schedule gpipe(uint32_t signature, uint32_t stages, uint32_t ranks, uint32_t microbatches,
                     llvm::ArrayRef<plan::Transfer> transfers, uint32_t tp) {
  assert(ranks <= stages && "every rank has a stage");
  assert(llvm::all_of(transfers, [&](auto &each) { return each.from < each.to && each.to < stages; }) &&
         "transfers go to later stages");
  plan::Schedule schedule;
  schedule.signature = signature;
  schedule.name = ranks == stages ? "gpipe" : "interleaved";
  schedule.microbatches = microbatches;
  for (uint32_t rank = 0; rank < ranks * tp; ++rank) {
    schedule.ranks.push_back(std::make_unique<plan::RankActions>());
    schedule.ranks.back()->rank = rank;
  }
  for (const Event &event : simulate(stages, ranks, microbatches, transfers)) {
    if (event.isForward) {
      append(schedule, tp, event.stage % ranks, plan::ActionKind::Forward, event.stage, event.microbatch, /*peer=*/0);
      continue;
    }
    append(schedule, tp, event.stage % ranks, plan::ActionKind::Send, event.stage, event.microbatch, event.peer);
    append(schedule, tp, event.peer % ranks, plan::ActionKind::Recv, event.peer, event.microbatch, event.stage);
  }
  return schedule;
}

} // namespace cleave
