//===- RunCapture.cpp - `cleave run --capture` ----------------------------===//
#include "tools/cleave/run/RunCapture.h"
#include "codegen/plan/text/Printable.h"
#include <chrono>

namespace cleave {

using llvm::Error;
using llvm::Expected;
using runtime::Session;

Expected<CapturedRun> capture(Session &session, uint32_t signature, const std::vector<at::Tensor> &inputs,
                              const RunCapture &options) {
  runtime::CaptureOptions capture;
  capture.points = options.points;
  capture.stopAfter = options.stopAfter;
  if (!options.replacements.empty()) {
    if (Error error = runtime::readTensors(options.replacements).moveInto(capture.replacements))
      return error;
    if (capture.replacements.empty())
      return llvm::createStringError(plan::printable(options.replacements) +
                                     ": found no tensors, expected one for each capture point to replace");
  }
  if (Error error = session.barrier())
    return error;
  const auto begin = std::chrono::steady_clock::now();
  auto captured = session.capture(inputs, capture, {.signature = signature});
  if (!captured)
    return captured.takeError();
  if (Error error = session.barrier())
    return error;
  CapturedRun run;
  run.measurement.secondsPerStep = run.measurement.secondsAlone =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  run.measurement.steps = 1;
  for (const runtime::DeviceStatistics &device : session.statistics())
    run.measurement.devices.push_back({device, device.busySeconds});
  run.measurement.outputs = {std::move(captured->outputs)};
  run.values = std::move(captured->values);
  return run;
}

} // namespace cleave
