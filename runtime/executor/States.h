//===- States.h - Model states across requests ------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_STATES_H
#define CLEAVE_RUNTIME_EXECUTOR_STATES_H

#include "codegen/plan/Plan.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace cleave::runtime {

/// States of a session, by their index in the plan. A request writes new values beside the current ones;
/// `commit` replaces the current ones, so a failed request leaves the states unchanged. One request at a
/// time. Within one object each state is read and written by one rank only: each tensor-parallel rank of each
/// data-parallel rank has an object of its own.
class States {
public:
  explicit States(size_t count = 0) : current(count), written(count), sums(count) {}
  /// The states of a plan, as the ranks with tensor-parallel rank `tpRank` hold them.
  States(const plan::Plan &plan, uint32_t tpRank);

  /// The value of the last successful write; `initial` if there is none.
  c10::IValue read(uint32_t state, c10::IValue initial) const {
    return current[state] ? *current[state] : std::move(initial);
  }
  /// Takes a contiguous tensor that nothing else refers to. Of any other value it stores a copy: the value
  /// may be the caller's, or a view of something larger.
  void write(uint32_t state, c10::IValue value);
  /// Adds to a sum over the request, which is zero before.
  void accumulate(uint32_t state, const at::Tensor &value);
  /// That sum, in memory of its own on `device`; the caller may write to it.
  at::Tensor sum(uint32_t state, c10::Device device);
  /// `value`, or a copy if it shares memory with a state. For callers that may write to the result.
  at::Tensor copiedIfAliased(at::Tensor value) const;

  void commit();
  void discard();
  /// Resets every state to its initial value.
  void reset();

private:
  /// Type of a sum over a request.
  struct SumType {
    bool isSum = false;
    c10::ScalarType dtype = c10::ScalarType::Float;
    std::vector<int64_t> sizes;
  };

  std::vector<std::optional<c10::IValue>> current, written;
  std::vector<SumType> sums;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_STATES_H
