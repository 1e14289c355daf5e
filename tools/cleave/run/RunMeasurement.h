//===- RunMeasurement.h - What `cleave run` runs and measures ---*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RUNMEASUREMENT_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RUNMEASUREMENT_H

#include "runtime/session/Session.h"
#include "tools/cleave/run/Stream.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstdint>
#include <vector>

namespace cleave {

/// A device of this process: peaks since the session was opened, busy during the steps.
struct MeasuredDevice {
  runtime::DeviceStatistics statistics;
  /// Of a step that has all ranks to itself.
  double busyAlone = 0;
};

/// What the steps gave and took in this process.
struct Measurement {
  /// Of the last step; undefined but in the process that gets them.
  Requests outputs;
  /// While steps follow one another through the stages, and of a step that has them to itself.
  double secondsPerStep = 0, secondsAlone = 0;
  uint64_t steps = 0;
  std::vector<MeasuredDevice> devices;
};

/// Runs the requests `steps` times, after `warmUps` of the first one. All processes of a run do.
/// \param keepTrace  takes what ranks have done in the steps from the session, every few requests and at the
/// end.
llvm::Expected<Measurement> measure(runtime::Session &session, const Requests &requests, uint64_t steps,
                                    int warmUps, llvm::function_ref<llvm::Error()> keepTrace);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RUNMEASUREMENT_H
