//===- Request.cpp --------------------------------------------------------===//
#include "runtime/schedule/Request.h"
#include "runtime/schedule/StageRun.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

namespace cleave::runtime {

Request::Request(uint64_t number, std::vector<at::Tensor> inputs, Microbatches microbatches,
                 size_t outputCount, llvm::ArrayRef<uint32_t> rankIds,
                 std::shared_ptr<AdmissionController> admissions, AdmissionController::Admission admission,
                 llvm::MutableArrayRef<States> states,
                 llvm::function_ref<std::shared_ptr<Exchange>(CancellationToken &)> connect,
                 c10::Device outputDevice, bool collects, std::function<void(const std::string &)> onTimeout)
    : number(number), microbatches(std::move(microbatches)), outputDevice(outputDevice),
      inputs(std::move(inputs)), outputs(outputCount), outputReady(outputCount),
      admissions(std::move(admissions)), admission(std::move(admission)), states(states),
      onTimeout(std::move(onTimeout)), working(rankIds.size() + collects) {
  for (uint32_t rank : rankIds)
    ranks.push_back({rank});
  ranksExchange = connect(*this);
}

Request::RankState &Request::stateOf(uint32_t rank) {
  return *llvm::find_if(ranks, [&](const RankState &state) { return state.rank == rank; });
}

Request::Clock::time_point Request::deadline() {
  std::lock_guard lock(mutex);
  return deadlineLocked();
}

void Request::expire() {
  const std::string message = describeStuck();
  if (fail(message) && onTimeout)
    onTimeout(message);
}

void Request::checkDeadline() {
  std::unique_lock lock(mutex);
  if (hasFailed || working == 0 || Clock::now() < deadlineLocked())
    return;
  lock.unlock();
  expire();
}

Request::Clock::time_point Request::deadlineLocked() const {
  if (begun != Clock::time_point())
    return begun + admissions->timeout;
  return std::max(submitted, admissions->lastEnd()) + admissions->timeout;
}

std::string Request::describe(const RankState &state) const {
  const plan::Action *action = state.action;
  std::string who = "rank " + std::to_string(state.rank);
  if (!action)
    return who + " is busy with an earlier request";
  who += " (stage " + std::to_string(action->stage) + ")";
  if (action->kind == plan::ActionKind::Recv)
    return who + " waits for the values of stage " + std::to_string(action->peer_stage);
  if (action->kind == plan::ActionKind::Send)
    return who + " waits for stage " + std::to_string(action->peer_stage) + " to take its values";
  const std::string other = ranksExchange->awaited(state.rank);
  if (!other.empty())
    return who + " waits for " + other;
  const std::string position = state.stage ? state.stage->position() : "";
  return who + " is computing" + (position.empty() ? "" : " " + position);
}

std::string Request::describeStuck() {
  std::vector<std::string> busy;
  std::unique_lock lock(mutex);
  for (const RankState &state : ranks)
    if (!state.left && working > 0)
      busy.push_back(describe(state));
  const std::shared_ptr<Exchange> exchange = ranksExchange;
  lock.unlock();
  const std::string everywhere = exchange ? exchange->describeRanks() : "";
  return "no result after " + std::to_string(admissions->timeout.count()) +
         " s: " + (everywhere.empty() ? llvm::join(busy, ", ") : everywhere) +
         "; allow more time (--timeout)";
}

void Request::enter(uint32_t rank, const plan::Action &action, const StageRun *stage) {
  std::lock_guard lock(mutex);
  if (begun == Clock::time_point())
    begun = Clock::now();
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

void Request::receiveOutputs(uint32_t signature) {
  for (Output &output : exchange().receiveOutputs(signature, microbatches)) {
    if (output.microbatch) {
      addOutput(output.leaf, *output.microbatch, output.tensor);
      continue;
    }
    std::lock_guard lock(mutex);
    outputs[output.leaf] = std::move(output.tensor);
  }
}

void Request::leave(std::optional<uint32_t> rank, MemoryAccount &account) {
  std::lock_guard lock(mutex);
  // Includes outputs of other ranks: this one may have received them.
  for (const at::Tensor &output : outputs)
    stopAccounting(output, account);
  if (rank)
    stateOf(*rank).left = true;
  if (--working == 0)
    end();
}

void Request::end() {
  inputs.clear();
  ranksExchange.reset();
  for (States &each : states)
    hasFailed ? each.discard() : each.commit();
  if (!hasFailed)
    admissions->noteEnd();
  admission.reset();
  changed.notify_all();
}

bool Request::fail(std::string message) {
  std::unique_lock lock(mutex);
  // A finished request cannot fail.
  if (hasFailed || working == 0)
    return false;
  const std::shared_ptr<Exchange> exchange = ranksExchange;
  lock.unlock();
  message = exchange->agreeOnFailure(std::move(message));
  lock.lock();
  if (hasFailed || working == 0)
    return false;
  failure = std::move(message);
  hasFailed = true;
  admissions->noteEnd();
  lock.unlock();
  changed.notify_all();
  exchange->wake();
  return true;
}

llvm::Expected<std::vector<at::Tensor>> Request::wait() {
  std::unique_lock lock(mutex);
  while (!hasFailed && working > 0) {
    // Recomputed after each wait: it moves when earlier requests end.
    const Clock::time_point deadline = deadlineLocked();
    if (Clock::now() < deadline) {
      changed.wait_until(lock, deadline);
      continue;
    }
    lock.unlock();
    expire();
    lock.lock();
  }
  if (hasFailed)
    return llvm::createStringError(failure);
  return outputs;
}

} // namespace cleave::runtime
