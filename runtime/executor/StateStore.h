//===- StateStore.h - Model states across requests --------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_STATESTORE_H
#define CLEAVE_RUNTIME_EXECUTOR_STATESTORE_H

#include "codegen/plan/Plan.h"
#include <ATen/core/ivalue.h>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace cleave::runtime {

/// Names a value that lasts from request to request. What only the scope Sequence has is 0 in the others,
/// which is also a valid id; the state's scope tells them apart.
struct StateKey {
  /// Scope Sequence: the sequence id of the requests.
  uint64_t sequence = 0;
  /// Index of the rank among those that share its stages: tensor-parallel ranks keep copies, or parts;
  /// data-parallel ranks keep rows of their own.
  uint32_t position = 0;
  /// Index in Plan.states.
  uint32_t state = 0;
  /// Scope Sequence: the micro-batch whose rows it holds, counted over all data-parallel ranks.
  uint32_t microbatch = 0;

  auto operator<=>(const StateKey &) const = default;
};
using StateValues = std::map<StateKey, c10::IValue>;

/// What writes of a state have cost since the session was opened.
struct StateTraffic {
  /// Bytes of the values that were written, and of those among them that had to be copied.
  int64_t bytesWritten = 0, bytesCopied = 0;
};

/// Holds the values of a session's states. Requests read them, and on success replace them, both through
/// RequestStates. Thread-safe.
class StateStore {
public:
  /// `plan` must outlive the store.
  explicit StateStore(const plan::Plan &plan);

  const plan::Plan &plan;

  /// Nothing if no request has left a value.
  std::optional<c10::IValue> find(const StateKey &key) const;
  /// Replaces values, all at once, by those of a request of `sequence` with a batch of `batch` samples; 0 if
  /// it reads no states of the sequence.
  void replace(StateValues values, uint64_t sequence, int64_t batch);
  /// Samples of each request of a sequence; nothing if none has succeeded yet.
  std::optional<int64_t> batchOf(uint64_t sequence) const;
  /// Drops the values of a sequence.
  void forget(uint64_t sequence);
  /// Drops all values.
  void reset();
  /// By index in Plan.states: the values of states of the scope Session, on the rank at `position`.
  std::map<uint32_t, c10::IValue> ofSession(uint32_t position) const;

  void recordWrite(uint32_t position, uint32_t state, int64_t bytes, bool isCopied);
  StateTraffic trafficOf(uint32_t position, uint32_t state) const;

private:
  mutable std::mutex mutex;
  StateValues values;
  /// By sequence id.
  std::map<uint64_t, int64_t> batches;
  /// By position, then by state.
  std::vector<StateTraffic> traffic;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_STATESTORE_H
