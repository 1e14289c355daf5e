//===- Trace.h - Timed actions of ranks -------------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_TRACE_H
#define CLEAVE_RUNTIME_BASE_TRACE_H

#include "codegen/plan/Plan.h"
#include <chrono>
#include <cstdint>

namespace cleave::runtime {

/// One action of one request. The time of a send or a receive includes waiting for the other rank.
struct TraceEvent {
  using Clock = std::chrono::steady_clock;
  /// Index of the request in its session, from 0.
  uint64_t request;
  uint32_t rank;
  plan::Action action;
  Clock::time_point begin, end;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_TRACE_H
