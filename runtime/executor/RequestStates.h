//===- RequestStates.h - Model states within one request --------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_REQUESTSTATES_H
#define CLEAVE_RUNTIME_EXECUTOR_REQUESTSTATES_H

#include "runtime/executor/StateStore.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <cstdint>
#include <map>
#include <vector>

namespace cleave::runtime {

/// A micro-batch of a request on one rank: what one run of a program works on.
struct MicrobatchSlice {
  /// As in StateKey: `microbatch` counts those of all data-parallel ranks.
  uint32_t position = 0, microbatch = 0;
  /// Its first sample in the batch, and the number of its samples; 0 if the signature has no batch.
  int64_t firstSample = 0, samples = 0;
};

/// A session's states as one request sees them. It reads what earlier requests have left, and writes beside
/// that; `commit` replaces the old values by the new ones, all at once, so a request that fails changes
/// nothing. Ranks may call `read`, `write`, `accumulate` and `sum` concurrently: each uses the entries of its
/// own position alone. `commit` and `discard` may be called when no rank runs any more.
class RequestStates {
public:
  /// `store` must outlive the result.
  /// \param sequence  0 where the plan has no states of the scope Sequence.
  /// \param batch     samples of the request; 0 where it reads no states of the scope Sequence.
  RequestStates(StateStore &store, uint64_t sequence, int64_t batch);

  /// Returns the stored value, or `initial` if no successful request has stored one. If the state has a batch
  /// dimension, `initial` has one row, which is repeated for each sample of the part, or a row for each
  /// sample of the request, of which the part's are returned. Throws for any other number of rows.
  c10::IValue read(uint32_t state, const MicrobatchSlice &part, c10::IValue initial) const;
  /// Takes a contiguous tensor that nothing else refers to. Of any other value it stores a copy: the value
  /// may be the caller's, or a view of something larger. Throws if a state with rows would have others than
  /// the part.
  void write(uint32_t state, const MicrobatchSlice &part, c10::IValue value);
  /// Adds to a sum over the request (scope Step), which is zero before, in memory on `device`. The first
  /// value becomes the sum itself if nothing else refers to it.
  void accumulate(uint32_t state, uint32_t position, c10::IValue value, c10::Device device);
  /// That sum, in memory of its own on `device`; the caller may write to it.
  at::Tensor sum(uint32_t state, uint32_t position, c10::Device device);
  /// A state of an optimizer, for the caller to change in place: it is the stored one, so that a request
  /// which fails leaves what it has changed. Zeros like `weight` where none is stored.
  at::Tensor optimizerState(uint32_t state, uint32_t position, const at::Tensor &weight);
  /// `value`, or a copy if it shares memory with a state. For callers that may write to the result.
  at::Tensor copiedIfAliased(at::Tensor value, const MicrobatchSlice &part) const;

  void commit();
  void discard();

private:
  const plan::State &typeOf(uint32_t state) const { return *store.plan.states[state]; }
  StateKey keyOf(uint32_t state, const MicrobatchSlice &part) const;
  /// The values that the request has written to `state` on the rank at `position`, by micro-batch.
  std::map<uint32_t, c10::IValue> &writtenOf(uint32_t state, uint32_t position) {
    return written[position * store.plan.states.size() + state];
  }
  std::vector<int64_t> sizesOfSum(uint32_t state, uint32_t position) const;
  at::Tensor initialRows(const plan::State &state, const MicrobatchSlice &part,
                         const at::Tensor &initial) const;

  StateStore &store;
  uint64_t sequence;
  int64_t batch;
  /// By position, then by state, so that ranks write to different elements.
  std::vector<std::map<uint32_t, c10::IValue>> written;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_REQUESTSTATES_H
