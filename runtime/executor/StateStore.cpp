//===- StateStore.cpp -----------------------------------------------------===//
#include "runtime/executor/StateStore.h"
#include "codegen/plan/Groups.h"
#include <utility>

namespace cleave::runtime {

StateStore::StateStore(const plan::Plan &plan)
    : plan(plan), traffic(plan::ranksPerDeviceGroup(plan) * plan.states.size()) {}

std::optional<c10::IValue> StateStore::find(const StateKey &key) const {
  std::lock_guard lock(mutex);
  auto found = values.find(key);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

void StateStore::replace(StateValues next, uint64_t sequence, int64_t batch) {
  {
    std::lock_guard lock(mutex);
    if (batch > 0)
      batches[sequence] = batch;
    for (auto &[key, value] : next)
      std::swap(values[key], value);
  }
  // The old values, now in `next`, are freed without the lock.
}

std::optional<int64_t> StateStore::batchOf(uint64_t sequence) const {
  std::lock_guard lock(mutex);
  auto found = batches.find(sequence);
  return found == batches.end() ? std::nullopt : std::optional(found->second);
}

void StateStore::forget(uint64_t sequence) {
  StateValues dropped;
  std::lock_guard lock(mutex);
  batches.erase(sequence);
  auto it = values.lower_bound({.sequence = sequence});
  while (it != values.end() && it->first.sequence == sequence)
    if (auto each = it++; plan.states[each->first.state]->scope == plan::StateScope::Sequence)
      dropped.insert(values.extract(each));
}

void StateStore::reset() {
  StateValues dropped;
  std::lock_guard lock(mutex);
  batches.clear();
  values.swap(dropped);
}

std::map<uint32_t, c10::IValue> StateStore::ofSession(uint32_t position) const {
  std::lock_guard lock(mutex);
  std::map<uint32_t, c10::IValue> found;
  for (const auto &[key, value] : values)
    if (key.position == position && plan.states[key.state]->scope == plan::StateScope::Session)
      found.emplace(key.state, value);
  return found;
}

void StateStore::recordWrite(uint32_t position, uint32_t state, int64_t bytes, bool isCopied) {
  std::lock_guard lock(mutex);
  StateTraffic &all = traffic[position * plan.states.size() + state];
  all.bytesWritten += bytes;
  all.bytesCopied += isCopied ? bytes : 0;
}

StateTraffic StateStore::trafficOf(uint32_t position, uint32_t state) const {
  std::lock_guard lock(mutex);
  return traffic[position * plan.states.size() + state];
}

} // namespace cleave::runtime
