//===- Request.cpp --------------------------------------------------------===//
#include "runtime/Request.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <thread>

namespace cleave::runtime {

Request::Request(uint64_t number, std::vector<at::Tensor> inputs, Microbatches microbatches, size_t outputCount,
                 size_t transfers, llvm::ArrayRef<uint32_t> rankIds, uint32_t groupSize, std::shared_ptr<Traffic> traffic,
                 llvm::MutableArrayRef<States> states, c10::Device outputPlace)
    : number(number), microbatches(std::move(microbatches)), outputPlace(outputPlace), inputs(std::move(inputs)), outputs(outputCount),
      traffic(std::move(traffic)), states(states), groupSize(groupSize), mailboxes(transfers * this->microbatches.count()),
      working(rankIds.size()) {
  for (uint32_t rank : rankIds)
    ranks.push_back({rank});
  const bool haveCores = rankIds.size() <= std::thread::hardware_concurrency();
  Patience &patience = *this;
  for (uint32_t first = 0; groupSize > 1 && first <= rankIds.back(); first += groupSize)
    groups.push_back(std::make_unique<LocalGroup>(first, groupSize, /*spins=*/haveCores, patience));
}

Communicator *Request::communicatorOf(uint32_t rank) {
  return groups.empty() ? nullptr : &groups[rank / groupSize]->member(rank % groupSize);
}

Request::RankState &Request::stateOf(uint32_t rank) {
  return *llvm::find_if(ranks, [&](const RankState &state) { return state.rank == rank; });
}

Request::Clock::time_point Request::deadline() {
  std::lock_guard lock(mutex);
  return deadlineLocked();
}

void Request::expire() {
  std::lock_guard lock(mutex);
  failLocked(describeStuck());
}

Request::Clock::time_point Request::deadlineLocked() const {
  if (begun != Clock::time_point())
    return begun + traffic->timeout;
  return std::max(submitted, traffic->lastEnd()) + traffic->timeout;
}

template <typename Condition> bool Request::waitUntil(std::unique_lock<std::mutex> &lock, Condition reached) {
  while (!hasFailed && !reached()) {
    // Looked up anew after each wait: it moves while earlier requests end.
    if (Clock::now() >= deadlineLocked())
      failLocked(describeStuck());
    else
      changed.wait_until(lock, deadlineLocked());
  }
  return !hasFailed;
}

std::string Request::describe(const RankState &state) const {
  const plan::Action *action = state.action;
  std::string who = "rank " + std::to_string(state.rank);
  if (!action)
    return who + " is busy with an earlier request";
  who += " (stage " + std::to_string(action->stage) + ")";
  if (action->kind == plan::ActionKind::Recv)
    return who + " waits for the values of stage " + std::to_string(action->peer);
  if (action->kind == plan::ActionKind::Send)
    return who + " waits for stage " + std::to_string(action->peer) + " to take its values";
  const std::string other = groups.empty() ? "" : groups[state.rank / groupSize]->awaited(state.rank % groupSize);
  return who + (other.empty() ? " is computing" : " waits for " + other);
}

std::string Request::describeStuck() const {
  std::string message = "no result after " + std::to_string(traffic->timeout.count()) + " s: ";
  std::vector<std::string> busy;
  for (const RankState &state : ranks)
    if (!state.left)
      busy.push_back(describe(state));
  return message + llvm::join(busy, ", ") + "; allow more time (--timeout)";
}

void Request::enter(uint32_t rank, const plan::Action &action) {
  std::lock_guard lock(mutex);
  if (begun == Clock::time_point())
    begun = Clock::now();
  stateOf(rank).action = &action;
}

bool Request::send(size_t transfer, uint32_t microbatch, std::vector<c10::IValue> &values) {
  std::unique_lock lock(mutex);
  Mailbox &mailbox = mailboxOf(transfer, microbatch);
  mailbox.values = &values;
  changed.notify_all();
  // A sender that ran ahead would hold more than the plan's peak.
  const bool isTaken = waitUntil(lock, [&] { return mailbox.taken; });
  // Nobody takes them after a failure.
  values.clear();
  return isTaken;
}

bool Request::receive(size_t transfer, uint32_t microbatch, MemoryAccount &receiver,
                      std::vector<c10::IValue> &values) {
  std::unique_lock lock(mutex);
  Mailbox &mailbox = mailboxOf(transfer, microbatch);
  if (!waitUntil(lock, [&] { return mailbox.values != nullptr; }))
    return false;
  // Before the sender goes on: what it makes next must not be counted beside what it gave away.
  for (const c10::IValue &value : *mailbox.values)
    moveAccounting(value, receiver);
  // One by one: each side keeps the memory of its vector for the next transfer.
  values.clear();
  for (c10::IValue &value : *mailbox.values)
    values.push_back(std::move(value));
  mailbox.taken = true;
  changed.notify_all();
  return true;
}

void Request::addOutput(size_t leaf, uint32_t microbatch, at::Tensor tensor) {
  std::unique_lock lock(mutex);
  at::Tensor whole = outputs[leaf];
  // No other rank has this leaf, and copying takes time.
  lock.unlock();
  microbatches.addOutputOf(microbatch, leaf, tensor, whole);
  lock.lock();
  outputs[leaf] = std::move(whole);
}

void Request::leave(uint32_t rank, MemoryAccount &account) {
  std::lock_guard lock(mutex);
  // Those of other ranks as well: this one may have received them.
  for (const at::Tensor &output : outputs)
    stopAccounting(output, account);
  stateOf(rank).left = true;
  if (--working == 0)
    end();
}

void Request::end() {
  inputs.clear();
  mailboxes.clear();
  groups.clear();
  for (States &each : states)
    hasFailed ? each.discard() : each.commit();
  if (!hasFailed)
    traffic->noteEnd();
  traffic->leave();
  changed.notify_all();
}

void Request::fail(std::string message) {
  std::lock_guard lock(mutex);
  failLocked(std::move(message));
}

void Request::failLocked(std::string message) {
  // What is done stays done.
  if (hasFailed || working == 0)
    return;
  failure = std::move(message);
  hasFailed = true;
  traffic->noteEnd();
  changed.notify_all();
  for (const auto &group : groups)
    group->wake();
}

llvm::Expected<std::vector<at::Tensor>> Request::wait() {
  std::unique_lock lock(mutex);
  if (!waitUntil(lock, [&] { return working == 0; }))
    return llvm::createStringError(failure);
  return outputs;
}

} // namespace cleave::runtime
