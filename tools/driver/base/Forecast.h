//===- Forecast.h - What a plan's schedule takes ----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_FORECAST_H
#define CLEAVE_TOOLS_DRIVER_BASE_FORECAST_H

#include "codegen/plan/Plan.h"
#include "partitioner/simulation/Simulator.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>

namespace cleave {

/// What a device does in one step, and holds.
struct DeviceForecast {
  std::vector<uint32_t> stages;
  double busySeconds, idleSeconds;
  /// Share of the step in which it makes no pass.
  double bubble() const {
    return idleSeconds + busySeconds > 0 ? idleSeconds / (idleSeconds + busySeconds) : 0;
  }
  int64_t weightBytes, peakBytes;
  /// What it holds over time, weights included; the most is `peakBytes`.
  std::vector<MemoryStep> memory;
  /// Nothing where its memory is not known, or not limited.
  std::optional<int64_t> memoryBytes;
};

/// Seconds and bytes of weights of all devices.
DeviceForecast sumOf(llvm::ArrayRef<DeviceForecast> devices);

/// One request that has the devices to itself.
struct PlanForecast {
  /// The plan's, as far as there are samples.
  plan::Schedule schedule;
  PipelineCosts costs;
  Forecast forecast;
  /// One a rank.
  std::vector<DeviceForecast> devices;
};

/// An error where that is more than any step takes, and than times of traces have room for: plans and machine
/// files are untrusted. `name` is the plan's or the model's.
llvm::Error checkSeconds(double seconds, llvm::StringRef name, llvm::StringRef remedy);

/// By what the plan predicts. `name` is the plan's, for errors: where it predicts nothing, or what cannot be;
/// plans are untrusted.
llvm::Expected<PlanForecast> forecastOf(const plan::Plan &plan, llvm::StringRef name);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_FORECAST_H
