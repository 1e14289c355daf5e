//===- ExecutionContext.h - What a run of a program may use -----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_EXECUTIONCONTEXT_H
#define CLEAVE_RUNTIME_EXECUTOR_EXECUTIONCONTEXT_H

#include "runtime/comm/Communicator.h"
#include "runtime/executor/RequestStates.h"
#include "runtime/executor/Tap.h"
#include "llvm/ADT/ArrayRef.h"
#include <array>
#include <atomic>
#include <cstdint>

namespace cleave::runtime {

/// What one run of a program may use besides its inputs and weights. A rank makes it for a
/// micro-batch of a request, and hands it down to what runs the program. What it refers to outlives the run.
struct ExecutionContext {
  /// By symbol of the signature: its size in this micro-batch.
  llvm::ArrayRef<int64_t> symbols;
  /// The run throws soon after this becomes true.
  const std::atomic<bool> &cancelled;
  /// By GroupKind, Tensor and Data: the rank in its group; null if that has one rank.
  std::array<Communicator *, 2> groups = {};
  /// Null where the program has no states.
  RequestStates *states = nullptr;
  MicrobatchSlice part = {};
  /// The run throws at the first instruction whose results have a NaN.
  bool refusesNan = false;
  /// Null where the request reads and replaces no values of modules.
  const Taps *taps = nullptr;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_EXECUTIONCONTEXT_H
