//===- Tap.h - Reads or replaces values of a run ----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_TAP_H
#define CLEAVE_RUNTIME_EXECUTOR_TAP_H

#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/ivalue.h>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace cleave::runtime {

/// Visits the value of a slot, which it may replace, after the first `after` instructions of a program.
struct Tap {
  uint32_t slot, after;
  std::function<void(c10::IValue &value)> visit;
};

/// What a request reads and replaces in one run of a program.
struct Taps {
  /// By `after`, ascending.
  std::vector<Tap> taps;
  /// The run ends after so many instructions, without results.
  std::optional<uint32_t> stopAfter;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_TAP_H
