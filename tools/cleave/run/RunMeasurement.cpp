//===- RunMeasurement.cpp - Measurements of `cleave run` ------------------===//
#include "tools/cleave/run/RunMeasurement.h"
#include "llvm/ADT/STLExtras.h"
#include <chrono>
#include <deque>
#include <memory>

namespace cleave {

using llvm::Error;
using llvm::Expected;
using runtime::DeviceStatistics;
using runtime::Session;

/// Number of requests after which the session's trace is taken.
static constexpr uint64_t kRequestsKept = 16;

/// Runs the requests `steps` times, pipelined through the stages, each time from the saved state. Returns the
/// outputs of the last time.
static Expected<Requests> runSteps(Session &session, uint32_t signature, const Requests &requests,
                                   uint64_t steps, llvm::function_ref<Error()> keepTrace) {
  // Enough to keep every rank busy; more would only hold more outputs.
  const size_t mostUnderWay = session.plan().stages.size() + 1;
  std::deque<std::unique_ptr<Session::Pending>> underWay;
  Requests outputs(requests.size());
  const uint64_t count = steps * requests.size();
  for (uint64_t started = 0, done = 0; done < count;) {
    if (started < count && underWay.size() < mostUnderWay) {
      const size_t index = started % requests.size();
      if (index == 0)
        if (Error error = session.resetState())
          return error;
      auto pending = session.start(requests[index], {.signature = signature});
      if (!pending)
        return pending.takeError();
      underWay.push_back(std::move(*pending));
      ++started;
      continue;
    }
    if (Error error = underWay.front()->wait().moveInto(outputs[done++ % requests.size()]))
      return error;
    underWay.pop_front();
    if (done % kRequestsKept == 0 || done == count)
      if (Error error = keepTrace())
        return error;
  }
  return outputs;
}

/// Seconds of `work`, which all processes begin together, until it has ended in all of them.
static Expected<double> secondsOf(Session &session, llvm::function_ref<Error()> work) {
  if (Error error = session.barrier())
    return error;
  auto begin = std::chrono::steady_clock::now();
  if (Error error = work())
    return error;
  if (Error error = session.barrier())
    return error;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Runs the requests one by one: each starts after the previous one has ended in all processes.
static Error runAlone(Session &session, uint32_t signature, const Requests &requests, int runs) {
  for (int run = 0; run < runs; ++run) {
    if (Error error = session.resetState())
      return error;
    for (const std::vector<at::Tensor> &inputs : requests) {
      if (auto outputs = session.run(inputs, {.signature = signature}); !outputs)
        return outputs.takeError();
      if (Error error = session.barrier())
        return error;
      // The trace covers only the measured steps.
      session.takeTrace();
    }
  }
  return Error::success();
}

/// Measures a step that runs alone: mean of a few.
static Error measureAlone(Session &session, uint32_t signature, const Requests &requests,
                          Measurement &measurement) {
  constexpr int runs = 3;
  const std::vector<DeviceStatistics> before = session.statistics();
  auto seconds = secondsOf(session, [&] { return runAlone(session, signature, requests, runs); });
  if (!seconds)
    return seconds.takeError();
  measurement.secondsAlone = *seconds / runs;
  for (auto [device, earlier] : llvm::zip(session.statistics(), before))
    measurement.devices.push_back({device, (device.busySeconds - earlier.busySeconds) / runs});
  return Error::success();
}

Expected<Measurement> measure(Session &session, uint32_t signature, const Requests &requests, uint64_t steps,
                              int warmUps, llvm::function_ref<Error()> keepTrace) {
  for (int done = 0; done < warmUps; ++done)
    if (auto warmUp = session.run(requests.front(), {.signature = signature}); !warmUp)
      return warmUp.takeError();
  Measurement measurement;
  measurement.steps = steps;
  // Steps of a single rank cannot overlap.
  const bool isOneRank = session.processes() == 1 && session.statistics().size() == 1;
  if (isOneRank)
    measurement.devices.resize(1);
  else if (Error error = measureAlone(session, signature, requests, measurement))
    return error;
  session.takeTrace();
  const std::vector<DeviceStatistics> before = session.statistics();
  auto seconds = secondsOf(session, [&] {
    return runSteps(session, signature, requests, steps, keepTrace).moveInto(measurement.outputs);
  });
  if (!seconds)
    return seconds.takeError();
  measurement.secondsPerStep = *seconds / double(steps);
  if (isOneRank)
    measurement.secondsAlone = measurement.secondsPerStep;
  for (auto [device, now, earlier] : llvm::zip(measurement.devices, session.statistics(), before)) {
    device.statistics = now;
    device.statistics.busySeconds -= earlier.busySeconds;
    device.statistics.stateBytesWritten -= earlier.stateBytesWritten;
    device.statistics.stateBytesCopied -= earlier.stateBytesCopied;
  }
  return measurement;
}

} // namespace cleave
