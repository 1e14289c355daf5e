//===- RunCapture.h - `cleave run --capture` --------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RUNCAPTURE_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RUNCAPTURE_H

#include "runtime/session/Session.h"
#include "tools/cleave/run/RunMeasurement.h"
#include <string>
#include <vector>

namespace cleave {

/// What a run reads and replaces (runtime::CaptureOptions), as the command line gives it.
struct RunCapture {
  std::vector<std::string> points;
  std::string stopAfter;
  /// A safetensors file with values by the names of capture points; empty: none.
  std::string replacements;

  bool isWanted() const { return !points.empty() || !stopAfter.empty() || !replacements.empty(); }
};

/// One request, measured, and what it captured.
struct CapturedRun {
  Measurement measurement;
  std::vector<runtime::NamedTensor> values;
};

/// Runs one request. A collective call of all processes of a run.
llvm::Expected<CapturedRun> capture(runtime::Session &session, uint32_t signature,
                                    const std::vector<at::Tensor> &inputs, const RunCapture &options);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RUNCAPTURE_H
