//===- Schedules.cpp - Schedule generators --------------------------------===//
#include "partitioner/Schedules.h"

#include <algorithm>
#include <cassert>
#include <memory>

namespace cleave {

static void append(plan::Schedule &schedule, plan::ActionKind kind, uint32_t stage, uint32_t microbatch,
                   uint32_t peer) {
  auto action = std::make_unique<plan::Action>();
  action->kind = kind;
  action->stage = stage;
  action->microbatch = microbatch;
  action->peer = peer;
  schedule.ranks[stage]->actions.push_back(std::move(action));
}

/// Per stage, the stages that it sends to, ascending.
static std::vector<std::vector<uint32_t>> receivers(uint32_t stages,
                                                    llvm::ArrayRef<plan::Transfer> transfers) {
  std::vector<std::vector<uint32_t>> result(stages);
  for (const plan::Transfer &transfer : transfers) {
    assert(transfer.from < transfer.to && transfer.to < stages && "transfers go to later stages");
    result[transfer.from].push_back(transfer.to);
  }
  for (std::vector<uint32_t> &peers : result) {
    std::sort(peers.begin(), peers.end());
    assert(std::adjacent_find(peers.begin(), peers.end()) == peers.end() && "one transfer a pair of stages");
  }
  return result;
}

// All actions are dealt out in one global order: by micro-batch, then sender, then receiver. Each rank's list
// follows that order, and a send stands in it right beside its receive, so the first transfer not yet done is
// always the next one for both of its ranks: whatever has to wait, something can go on.
plan::Schedule gpipe(uint32_t signature, uint32_t stages, uint32_t microbatches,
                     llvm::ArrayRef<plan::Transfer> transfers) {
  plan::Schedule schedule;
  schedule.signature = signature;
  schedule.name = "gpipe";
  schedule.microbatches = microbatches;
  for (uint32_t rank = 0; rank < stages; ++rank) {
    schedule.ranks.push_back(std::make_unique<plan::RankActions>());
    schedule.ranks.back()->rank = rank;
  }
  const std::vector<std::vector<uint32_t>> peers = receivers(stages, transfers);
  for (uint32_t microbatch = 0; microbatch < microbatches; ++microbatch)
    for (uint32_t stage = 0; stage < stages; ++stage) {
      append(schedule, plan::ActionKind::Forward, stage, microbatch, /*peer=*/0);
      for (uint32_t peer : peers[stage]) {
        append(schedule, plan::ActionKind::Send, stage, microbatch, peer);
        append(schedule, plan::ActionKind::Recv, peer, microbatch, stage);
      }
    }
  return schedule;
}

} // namespace cleave
