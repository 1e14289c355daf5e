//===- Request.cpp --------------------------------------------------------===//
#include "runtime/schedule/Request.h"
#include "codegen/plan/Schedule.h"
#include "runtime/schedule/ProgramRun.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

namespace cleave::runtime {

Request::Request(uint64_t number, std::vector<at::Tensor> inputs, Microbatches microbatches,
                 size_t outputCount, llvm::ArrayRef<uint32_t> rankIds,
                 std::shared_ptr<AdmissionController> admissions, AdmissionController::Admission admission,
                 RequestStates states,
                 llvm::function_ref<std::shared_ptr<Exchange>(CancellationToken &)> connect,
                 c10::Device outputDevice, bool collects, FailureAgreement *processes,
                 std::function<void(const std::string &)> onTimeout,
                 std::function<void(const std::string &)> onHalfUpdate)
    : number(number), microbatches(std::move(microbatches)), outputDevice(outputDevice),
      cancellation({.timeout = admissions->timeout,
                    .processes = processes,
                    .earliestBegin = [admissions] { return admissions->lastEnd(); },
                    .describeRanks = [this] { return describeStuck(); },
                    .onTimeout = std::move(onTimeout)}),
      states(std::move(states)), inputs(std::move(inputs)), outputs(outputCount), outputReady(outputCount),
      admissions(std::move(admissions)), admission(std::move(admission)),
      onHalfUpdate(std::move(onHalfUpdate)), working(rankIds.size() + collects), waker(cancellation, [this] {
        this->admissions->recordEnd();
        {
          std::lock_guard lock(mutex);
        }
        changed.notify_all();
      }) {
  for (uint32_t rank : rankIds)
    ranks.push_back({rank});
  ranksExchange = connect(cancellation);
}

Request::RankState &Request::stateOf(uint32_t rank) {
  return *llvm::find_if(ranks, [&](const RankState &state) { return state.rank == rank; });
}

std::string Request::describe(const RankState &state) const {
  const plan::Action *action = state.action;
  std::string who = "rank " + std::to_string(state.rank);
  if (!action)
    return who + " is busy with an earlier request";
  who += " (stage " + std::to_string(action->stage) + ")";
  const bool isGradient =
      action->kind == plan::ActionKind::SendGrad || action->kind == plan::ActionKind::RecvGrad;
  if (plan::isReceive(action->kind))
    return who + " waits for the " + (isGradient ? "gradients" : "values") + " of stage " +
           std::to_string(action->peer_stage);
  if (plan::isSend(action->kind))
    return who + " waits for stage " + std::to_string(action->peer_stage) + " to take its " +
           (isGradient ? "gradients" : "values");
  const std::string other = ranksExchange->awaited(state.rank);
  if (!other.empty())
    return who + " waits for " + other;
  const std::string position = state.stage ? state.stage->position() : "";
  return who + " is computing" + (position.empty() ? "" : " " + position);
}

std::string Request::describeStuck() {
  std::vector<std::string> busy;
  std::lock_guard lock(mutex);
  for (const RankState &state : ranks)
    if (!state.left && working > 0)
      busy.push_back(describe(state));
  return llvm::join(busy, ", ");
}

void Request::enter(uint32_t rank, const plan::Action &action, const ProgramRun *stage) {
  cancellation.begin();
  std::lock_guard lock(mutex);
  RankState &state = stateOf(rank);
  state.action = &action;
  state.stage = stage;
}

void Request::addOutput(size_t leaf, uint32_t microbatch, const at::Tensor &tensor) {
  if (!microbatches.joins(leaf)) {
    if (microbatch != 0)
      return;
    at::Tensor placed = tensor.to(outputDevice, /*non_blocking=*/true);
    recordDefaultStream(placed);
    std::lock_guard lock(mutex);
    outputs[leaf] = std::move(placed);
    return;
  }
  std::unique_lock lock(mutex);
  at::Tensor &whole = outputs[leaf];
  if (!whole.defined()) {
    whole = microbatches.allocateOutput(microbatch, leaf, tensor, outputDevice);
    recordDefaultStream(whole);
    // On a GPU the memory may still be in use by earlier calls of this thread, and other threads write to it,
    // too.
    outputReady[leaf] = StreamEvents({whole});
  }
  const at::Tensor room = whole;
  // Unlocked, since copying takes time; micro-batches write to disjoint parts.
  lock.unlock();
  outputReady[leaf].wait();
  recordStream({room});
  microbatches.addOutputOf(microbatch, leaf, tensor, room);
}

void Request::sendOutputs(uint32_t signature, uint32_t rank) {
  if (!stops())
    exchange().sendOutputs(signature, microbatches, outputs);
  if (captures && exchange().sendsOutputs(signature))
    captures->sendTo(exchange(), rank);
}

void Request::receiveOutputs(uint32_t signature, uint32_t ownRank) {
  std::vector<Output> received;
  if (!stops() && exchange().receivesOutputs(signature))
    received = exchange().receiveOutputs(signature, microbatches);
  if (captures)
    captures->receiveFrom(exchange(), ownRank);
  for (Output &output : received) {
    if (output.microbatch) {
      addOutput(output.leaf, *output.microbatch, output.tensor);
      continue;
    }
    std::lock_guard lock(mutex);
    outputs[output.leaf] = std::move(output.tensor);
  }
}

void Request::leave(std::optional<uint32_t> rank, MemoryAccount &account) {
  std::shared_ptr<Exchange> unused;
  std::lock_guard lock(mutex);
  // Includes outputs of other ranks: this one may have received them.
  for (const at::Tensor &output : outputs)
    stopAccounting(output, account);
  if (captures)
    captures->forEach([&](const at::Tensor &value) { stopAccounting(value, account); });
  if (rank)
    stateOf(*rank).left = true;
  if (--working == 0)
    unused = end();
}

std::shared_ptr<Exchange> Request::end() {
  inputs.clear();
  const bool hasSucceeded = cancellation.finish();
  if (!hasSucceeded && updates && onHalfUpdate)
    onHalfUpdate(cancellation.message());
  hasSucceeded && !stops() ? states.commit() : states.discard();
  if (hasSucceeded)
    admissions->recordEnd();
  admission.reset();
  changed.notify_all();
  return std::move(ranksExchange);
}

llvm::Expected<std::vector<at::Tensor>> Request::wait() {
  std::unique_lock lock(mutex);
  while (!cancellation.isCancelled() && working > 0) {
    // Recomputed after each wait: it moves when earlier requests end.
    const CancellationToken::Clock::time_point deadline = cancellation.deadline();
    if (CancellationToken::Clock::now() < deadline) {
      changed.wait_until(lock, deadline);
      continue;
    }
    lock.unlock();
    cancellation.expire();
    lock.lock();
  }
  if (cancellation.isCancelled())
    return llvm::createStringError(cancellation.message());
  lock.unlock();
  std::vector<at::Tensor> merged;
  for (size_t leaf = 0; leaf < outputs.size(); ++leaf)
    merged.push_back(microbatches.merged(leaf, outputs[leaf]));
  return merged;
}

} // namespace cleave::runtime
