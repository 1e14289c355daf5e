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

/// The part of a request that one run of a program has.
struct RequestPart {
  /// See StateKey.
  uint32_t position = 0, microbatch = 0;
  /// Its samples of the batch, and their number; 0 where the signature has no batch.
  int64_t firstSample = 0, samples = 0;
};

/// A session's states as one request sees them. It reads what earlier requests have left, and writes beside
/// that; `commit` replaces the old values by the new ones, all at once, so a request that fails changes
/// nothing. A state is read and written by the rank of its stage alone, so ranks may use one object at a
/// time.
class RequestStates {
public:
  /// `store` must outlive the result.
  /// \param sequence  0 where the plan has no states of the scope Sequence.
  /// \param batch     samples of the request; 0 where it reads no states of the scope Sequence.
  RequestStates(StateStore &store, uint64_t sequence, int64_t batch);

  /// The value that the last successful request has left; if there is none, `initial`, of which a state with
  /// rows gives those of the part: each is a copy of the only one, or they are those of its samples. Throws
  /// if `initial` has another number of rows.
  c10::IValue read(uint32_t state, const RequestPart &part, c10::IValue initial) const;
  /// Takes a contiguous tensor that nothing else refers to. Of any other value it stores a copy: the value
  /// may be the caller's, or a view of something larger. Throws if a state with rows would have others than
  /// the part.
  void write(uint32_t state, const RequestPart &part, c10::IValue value);
  /// Adds to a sum over the request (scope Step), which is zero before.
  void accumulate(uint32_t state, uint32_t position, const at::Tensor &value);
  /// That sum, in memory of its own on `device`; the caller may write to it.
  at::Tensor sum(uint32_t state, uint32_t position, c10::Device device);
  /// `value`, or a copy if it shares memory with a state. For callers that may write to the result.
  at::Tensor copiedIfAliased(at::Tensor value, const RequestPart &part) const;

  void commit();
  void discard();

private:
  const plan::State &typeOf(uint32_t state) const { return *store.plan.states[state]; }
  StateKey keyOf(uint32_t state, const RequestPart &part) const;
  /// What the request has written of a state at a position, by micro-batch.
  std::map<uint32_t, c10::IValue> &writtenOf(uint32_t state, uint32_t position) {
    return written[position * store.plan.states.size() + state];
  }
  at::Tensor initialRows(const plan::State &state, const RequestPart &part, const at::Tensor &initial) const;

  StateStore &store;
  uint64_t sequence;
  int64_t batch;
  /// By position, then by state, so that ranks write to different elements.
  std::vector<std::map<uint32_t, c10::IValue>> written;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_REQUESTSTATES_H
