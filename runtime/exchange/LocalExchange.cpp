//===- LocalExchange.cpp - Ranks as threads of one process ----------------===//
#include "runtime/exchange/LocalExchange.h"
#include "llvm/ADT/STLExtras.h"
#include <thread>

namespace cleave::runtime {

LocalExchange::LocalExchange(size_t ranks, const std::map<uint32_t, std::vector<uint32_t>> &members,
                             size_t transfers, uint32_t microbatches, CancellationToken &cancellation)
    : microbatches(microbatches), cancellation(cancellation), mailboxes(transfers * microbatches),
      waker(cancellation, [this] {
        // A thread that has checked the condition and is about to sleep holds the lock.
        {
          std::lock_guard lock(mutex);
        }
        changed.notify_all();
      }) {
  const bool haveCores = ranks <= std::thread::hardware_concurrency();
  for (const auto &[index, ids] : members)
    groups.try_emplace(index, ids, std::make_unique<LocalGroup>(ids, /*spins=*/haveCores, cancellation));
}

std::optional<uint32_t> LocalExchange::GroupOfRanks::indexOf(uint32_t rank) const {
  auto found = llvm::find(ranks, rank);
  return found == ranks.end() ? std::nullopt : std::optional<uint32_t>(found - ranks.begin());
}

Communicator &LocalExchange::communicatorOf(uint32_t rank, uint32_t group) {
  const GroupOfRanks &own = groups.at(group);
  return own.group->member(*own.indexOf(rank));
}

std::string LocalExchange::awaited(uint32_t rank) const {
  for (const auto &[index, each] : groups)
    if (const auto own = each.indexOf(rank))
      if (std::string awaited = each.group->awaited(*own); !awaited.empty())
        return awaited;
  return "";
}

template <typename Condition>
bool LocalExchange::waitUntil(std::unique_lock<std::mutex> &lock, Condition reached) {
  if (reached())
    return !cancellation.isCancelled();
  lock.unlock();
  // The request has begun, so its deadline does not change.
  const auto deadline = cancellation.deadline();
  lock.lock();
  if (!changed.wait_until(lock, deadline, [&] { return reached() || cancellation.isCancelled(); })) {
    lock.unlock();
    cancellation.expire();
    lock.lock();
  }
  return !cancellation.isCancelled();
}

bool LocalExchange::send(const P2PKey &key, std::vector<c10::IValue> &values) {
  StreamEvents ready(values);
  std::unique_lock lock(mutex);
  Mailbox &mailbox = mailboxOf(key);
  mailbox.values = &values;
  mailbox.ready = std::move(ready);
  changed.notify_all();
  // A sender that ran ahead would hold more than the plan's peak.
  const bool isTaken = waitUntil(lock, [&] { return mailbox.taken; });
  // No rank takes them after a failure.
  mailbox.values = nullptr;
  values.clear();
  return isTaken;
}

bool LocalExchange::receive(const P2PKey &key, MemoryAccount &receiver, std::vector<c10::IValue> &values) {
  std::unique_lock lock(mutex);
  Mailbox &mailbox = mailboxOf(key);
  if (!waitUntil(lock, [&] { return mailbox.values != nullptr; }))
    return false;
  // Before the sender continues: what it makes next must not be counted beside the values that it sent.
  for (const c10::IValue &value : *mailbox.values)
    moveAccounting(value, receiver);
  // Element by element, so that both vectors keep their capacity for the next transfer.
  values.clear();
  for (c10::IValue &value : *mailbox.values)
    values.push_back(std::move(value));
  const StreamEvents ready = std::move(mailbox.ready);
  mailbox.taken = true;
  changed.notify_all();
  lock.unlock();
  ready.wait();
  recordStream(values);
  return true;
}

} // namespace cleave::runtime
