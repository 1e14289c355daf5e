//===- PeerExchange.cpp - Ranks as processes ------------------------------===//
#include "runtime/PeerExchange.h"
#include "runtime/Placement.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace cleave::runtime {

using plan::ActionKind;

/// The rank that gives the outputs of a stage.
static uint32_t giverOf(const plan::Plan &plan, uint32_t stage) { return plan.stages[stage]->ranks.front(); }

uint32_t outputRankOf(const plan::Plan &plan, uint32_t signature) {
  uint32_t last = 0;
  for (const auto &output : plan.signatures[signature]->outputs)
    last = std::max(last, output->stage);
  return giverOf(plan, last);
}

PeerExchange::PeerExchange(const plan::Plan &plan, Peers &peers, MemoryAccount &account, bool led)
    : plan(plan), peers(peers), account(account), led(led) {
  const uint32_t size = plan.mesh->tp, index = tensorRankOf(plan, peers.rank());
  if (size > 1)
    group.emplace(peers.wire(), peers.rank() - index, size, index);
  for (uint32_t signature = 0; signature < plan.signatures.size(); ++signature)
    connect(signature);
}

void PeerExchange::connect(uint32_t signature) {
  auto give = [&](uint32_t to, Topic topic) { outboxes.try_emplace({to, topic}, peers.wire(), to, topic); };
  auto take = [&](uint32_t from, Topic topic) {
    if (!inboxes.contains({from, topic}))
      inboxes.try_emplace({from, topic}, peers.wire(), from, topic, account);
  };
  for (const auto &action : scheduleOf(plan, signature).ranks[peers.rank()]->actions) {
    if (action->kind == ActionKind::Send)
      give(peerOf(plan, peers.rank(), *action), Topic::Values);
    else if (action->kind == ActionKind::Recv)
      take(peerOf(plan, peers.rank(), *action), Topic::Values);
  }
  const uint32_t target = outputRank(signature);
  for (uint32_t rank = 0; rank < peers.size(); ++rank) {
    if (rank == target || leavesOf(signature, rank).empty())
      continue;
    if (rank == peers.rank())
      give(target, Topic::Outputs);
    else if (target == peers.rank())
      take(rank, Topic::Outputs);
  }
}

bool PeerExchange::send(const Handover &handover, std::vector<c10::IValue> &values) {
  outboxes.at({handover.peer, Topic::Values}).send(values);
  return true;
}

bool PeerExchange::receive(const Handover &handover, MemoryAccount &receiver,
                           std::vector<c10::IValue> &values) {
  inboxes.at({handover.peer, Topic::Values}).take(values);
  return true;
}

std::vector<uint32_t> PeerExchange::leavesOf(uint32_t signature, uint32_t rank) const {
  std::vector<uint32_t> leaves;
  for (auto [leaf, output] : llvm::enumerate(plan.signatures[signature]->outputs))
    if (giverOf(plan, output->stage) == rank)
      leaves.push_back(leaf);
  return leaves;
}

void PeerExchange::giveOutputs(uint32_t signature, std::vector<at::Tensor> &outputs) {
  const uint32_t target = outputRank(signature);
  std::vector<c10::IValue> values;
  if (peers.rank() == target)
    return;
  for (uint32_t leaf : leavesOf(signature, peers.rank()))
    values.push_back(std::exchange(outputs[leaf], {}));
  if (!values.empty())
    outboxes.at({target, Topic::Outputs}).send(values);
}

bool PeerExchange::takesOutputs(uint32_t signature) const {
  return peers.rank() == outputRank(signature) &&
         llvm::any_of(plan.signatures[signature]->outputs,
                      [&](const auto &output) { return giverOf(plan, output->stage) != peers.rank(); });
}

std::vector<Output> PeerExchange::takeOutputs(uint32_t signature) {
  std::vector<Output> outputs;
  std::vector<c10::IValue> values;
  for (uint32_t rank = 0; rank < peers.size(); ++rank) {
    const std::vector<uint32_t> leaves = leavesOf(signature, rank);
    if (rank == peers.rank() || leaves.empty())
      continue;
    inboxes.at({rank, Topic::Outputs}).take(values);
    TORCH_CHECK(values.size() == leaves.size(), "found ", values.size(), " outputs of rank ", rank,
                ", expected ", leaves.size());
    for (auto [leaf, value] : llvm::zip(leaves, values))
      outputs.push_back({leaf, value.toTensor()});
  }
  return outputs;
}

std::string PeerExchange::describeRanks() {
  return "rank " + std::to_string(peers.rank()) + " " + status() + ", " + peers.describeOthers();
}

} // namespace cleave::runtime
