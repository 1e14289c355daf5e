//===- RunMeasurement.h - Measurements of `cleave run` ----------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RUNMEASUREMENT_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RUNMEASUREMENT_H

#include "runtime/session/Session.h"
#include "tools/cleave/run/RequestStream.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstdint>
#include <vector>

namespace cleave {

/// A device of this process: peak memory since the session was opened, busy time of the steps.
struct MeasuredDevice {
  runtime::DeviceStatistics statistics;
  /// Busy seconds of a step that runs alone.
  double busyAlone = 0;
};

/// Outputs and times of the steps in this process. A step is one pass over all requests: one request, or a
/// whole stream.
struct Measurement {
  /// Outputs of the last step; undefined except in the process that gets them.
  Requests outputs;
  /// Seconds of a step while steps are pipelined, and of a step that runs alone.
  double secondsPerStep = 0, secondsAlone = 0;
  uint64_t steps = 0;
  std::vector<MeasuredDevice> devices;
};

/// Runs the requests, of one signature, `steps` times, after `warmUps` runs of the first one. A collective
/// call of all processes of a run.
/// \param keepTrace  takes the recorded actions from the session; called every few requests and at the end.
llvm::Expected<Measurement> measure(runtime::Session &session, uint32_t signature, const Requests &requests,
                                    uint64_t steps, int warmUps, llvm::function_ref<llvm::Error()> keepTrace);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RUNMEASUREMENT_H
