//===- PeerExchange.cpp - Ranks as processes ------------------------------===//
#include "runtime/exchange/PeerExchange.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/Schedule.h"
#include "runtime/device/PlanRanks.h"
#include "runtime/exchange/TransferLimits.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace cleave::runtime {

uint32_t outputRankOf(const plan::Plan &plan, uint32_t signature) {
  uint32_t last = 0;
  for (const auto &output : plan.signatures[signature]->outputs)
    last = std::max(last, output->stage);
  return plan.stages[last]->ranks.front();
}

namespace {
/// Communicator of a rank on a GPU in a group that includes a CPU: copies tensors to the CPU for each
/// collective.
class HostStagedCommunicator final : public Communicator {
public:
  explicit HostStagedCommunicator(Communicator &group) : group(group) {}
  at::Tensor allReduce(const at::Tensor &tensor) override {
    return group.allReduce(tensor.cpu()).to(tensor.device());
  }
  at::Tensor allGather(const at::Tensor &tensor, int64_t dim, at::IntArrayRef pieces) override {
    return group.allGather(tensor.cpu(), dim, pieces).to(tensor.device());
  }
  at::Tensor reduceScatter(const at::Tensor &tensor, int64_t dim, at::IntArrayRef ranges) override {
    return group.reduceScatter(tensor.cpu(), dim, ranges).to(tensor.device());
  }
  at::Tensor allToAll(const at::Tensor &tensor, int64_t from, at::IntArrayRef pieces, int64_t to,
                      at::IntArrayRef ranges) override {
    return group.allToAll(tensor.cpu(), from, pieces, to, ranges).to(tensor.device());
  }
  at::Tensor broadcast(const at::Tensor &tensor, int64_t root) override {
    return group.broadcast(tensor.cpu(), root).to(tensor.device());
  }

private:
  Communicator &group;
};
} // namespace

PeerExchange::PeerExchange(const plan::Plan &plan, Membership &membership, MemoryAccount &account,
                           bool hasCoordinator, const DeviceLinks &links)
    : plan(plan), membership(membership), account(account), hasCoordinator(hasCoordinator), links(links) {
  for (auto [index, group] : llvm::enumerate(plan.groups)) {
    auto place = llvm::find(group->ranks, membership.rank());
    if (place == group->ranks.end())
      continue;
    DeviceProcessGroup *devices = group->kind == plan::GroupKind::Tensor ? links.tensorGroup() : nullptr;
    OwnGroup &own = groups[index];
    own.group = std::make_unique<PeerGroup>(membership.transport(), group->ranks,
                                            place - group->ranks.begin(), devices);
    if (!devices && !links.device().is_cpu())
      own.hostStaged = std::make_unique<HostStagedCommunicator>(*own.group);
  }
  for (uint32_t signature = 0; signature < plan.signatures.size(); ++signature)
    connect(signature);
}

Communicator &PeerExchange::communicatorOf(uint32_t, uint32_t group) {
  const OwnGroup &own = groups.at(group);
  return own.hostStaged ? *own.hostStaged : *own.group;
}

std::string PeerExchange::awaited(uint32_t) const {
  for (const auto &[index, own] : groups)
    if (std::string awaited = own.group->awaited(); !awaited.empty())
      return awaited;
  return "";
}

void PeerExchange::connect(uint32_t signature) {
  // Outputs are CPU tensors, so they have no link.
  auto give = [&](uint32_t to, Tag tag) {
    senders.try_emplace({to, tag}, membership.transport(), to, tag,
                        tag == Tag::Values ? links.to(to) : nullptr);
  };
  auto take = [&](uint32_t from, Tag tag) {
    if (!receivers.contains({from, tag}))
      receivers.try_emplace({from, tag}, membership.transport(), from, tag, account,
                            tag == Tag::Values ? limitsOfValues(plan, from, membership.rank())
                                               : limitsOfOutputs(plan),
                            tag == Tag::Values ? links.from(from) : nullptr);
  };
  for (const auto &action : scheduleOf(plan, signature).ranks[membership.rank()]->actions) {
    if (plan::isSend(action->kind))
      give(peerOf(plan, membership.rank(), *action), Tag::Values);
    else if (plan::isReceive(action->kind))
      take(peerOf(plan, membership.rank(), *action), Tag::Values);
  }
  const uint32_t target = outputRank(signature);
  for (uint32_t rank = 0; rank < membership.size(); ++rank) {
    if (rank == target || leavesOf(signature, rank).empty())
      continue;
    if (rank == membership.rank())
      give(target, Tag::Outputs);
    else if (target == membership.rank())
      take(rank, Tag::Outputs);
  }
}

bool PeerExchange::send(const P2PKey &key, std::vector<c10::IValue> &values) {
  senders.at({key.peer, Tag::Values}).send(values);
  return true;
}

bool PeerExchange::receive(const P2PKey &key, MemoryAccount &receiver, std::vector<c10::IValue> &values) {
  receivers.at({key.peer, Tag::Values}).take(values);
  return true;
}

std::vector<uint32_t> PeerExchange::leavesOf(uint32_t signature, uint32_t rank) const {
  std::vector<uint32_t> leaves;
  for (uint32_t leaf = 0; leaf < plan.signatures[signature]->outputs.size(); ++leaf)
    if (producesOutput(plan, rank, signature, leaf))
      leaves.push_back(leaf);
  return leaves;
}

std::vector<Output> PeerExchange::partsOf(uint32_t signature, uint32_t rank,
                                          const Microbatches &microbatches) const {
  const uint32_t dataParallelSize = plan.mesh->dp, own = plan::dpRankOf(plan, rank);
  std::vector<Output> parts;
  for (uint32_t leaf : leavesOf(signature, rank)) {
    if (dataParallelSize == 1 || !microbatches.joins(leaf)) {
      if (own == 0)
        parts.push_back({leaf, std::nullopt, {}});
      continue;
    }
    for (uint64_t microbatch = own; microbatch < microbatches.count(); microbatch += dataParallelSize)
      parts.push_back({leaf, uint32_t(microbatch), {}});
  }
  return parts;
}

void PeerExchange::sendOutputs(uint32_t signature, const Microbatches &microbatches,
                               std::vector<at::Tensor> &outputs) {
  const uint32_t target = outputRank(signature);
  std::vector<c10::IValue> values;
  if (membership.rank() == target)
    return;
  for (const Output &part : partsOf(signature, membership.rank(), microbatches))
    values.push_back(part.microbatch
                         ? microbatches.outputOf(*part.microbatch, part.leaf, outputs[part.leaf]).contiguous()
                         : outputs[part.leaf]);
  for (uint32_t leaf : leavesOf(signature, membership.rank()))
    outputs[leaf] = at::Tensor();
  if (!values.empty())
    senders.at({target, Tag::Outputs}).send(values);
}

void PeerExchange::sendCaptured(uint32_t signature, std::vector<c10::IValue> &values) {
  const uint32_t target = outputRank(signature);
  auto [sender, isNew] = capturedSenders.try_emplace(target, membership.transport(), target, Tag::Captured);
  sender->second.send(values);
}

std::vector<c10::IValue> PeerExchange::receiveCaptured(uint32_t rank) {
  auto [receiver, isNew] = capturedReceivers.try_emplace(rank, membership.transport(), rank, Tag::Captured,
                                                         account, limitsOfCaptured(plan));
  std::vector<c10::IValue> values;
  receiver->second.take(values);
  return values;
}

bool PeerExchange::receivesOutputs(uint32_t signature) const {
  if (membership.rank() != outputRank(signature))
    return false;
  for (uint32_t rank = 0; rank < membership.size(); ++rank)
    if (rank != membership.rank() && !leavesOf(signature, rank).empty())
      return true;
  return false;
}

std::vector<Output> PeerExchange::receiveOutputs(uint32_t signature, const Microbatches &microbatches) {
  std::vector<Output> outputs;
  std::vector<c10::IValue> values;
  for (uint32_t rank = 0; rank < membership.size(); ++rank) {
    const std::vector<Output> parts = partsOf(signature, rank, microbatches);
    if (rank == membership.rank() || parts.empty())
      continue;
    receivers.at({rank, Tag::Outputs}).take(values);
    TORCH_CHECK(values.size() == parts.size(), "found ", values.size(), " outputs of rank ", rank,
                ", expected ", parts.size());
    for (auto [part, value] : llvm::zip(parts, values))
      outputs.push_back({part.leaf, part.microbatch, value.toTensor()});
  }
  return outputs;
}

} // namespace cleave::runtime
