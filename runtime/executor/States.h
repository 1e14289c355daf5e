//===- States.h - What modules keep from request to request -----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_STATES_H
#define CLEAVE_RUNTIME_EXECUTOR_STATES_H

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace cleave::runtime {

/// The states of a session, by their index in the plan. A request writes beside what it reads; `commit` puts
/// that in place, so that a request that fails leaves the states as they were. One request at a time; each
/// state is one rank's. Ranks that share their stages have an object each.
class States {
public:
  explicit States(size_t count) : current(count), written(count) {}

  /// What the last request that succeeded has written; `initial` where none has.
  c10::IValue read(uint32_t state, c10::IValue initial) const {
    return current[state] ? *current[state] : std::move(initial);
  }
  /// Keeps a copy, row-major: the value may be the caller's, or part of something larger.
  void write(uint32_t state, const c10::IValue &value);
  /// `value`, or a copy where it shares memory with a state: for somebody who may write it.
  at::Tensor apart(at::Tensor value) const;

  void commit();
  void discard();
  /// Every state is again what it is in a session's first request.
  void reset();

private:
  std::vector<std::optional<c10::IValue>> current, written;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_STATES_H
