//===- Forecast.h - Predicted times and memory of a plan --------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_FORECAST_H
#define CLEAVE_TOOLS_DRIVER_BASE_FORECAST_H

#include "codegen/plan/Plan.h"
#include "partitioner/simulation/Simulator.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>

namespace cleave {

/// Predicted time and memory of a device in one step.
struct DeviceForecast {
  std::vector<uint32_t> stages;
  double busySeconds, idleSeconds;
  /// Share of the step in which it is idle.
  double bubble() const {
    return idleSeconds + busySeconds > 0 ? idleSeconds / (idleSeconds + busySeconds) : 0;
  }
  int64_t weightBytes, peakBytes;
  /// Memory over time, weights included; its maximum is `peakBytes`.
  std::vector<MemoryStep> memory;
  /// Nothing if its memory is not known, or not limited.
  std::optional<int64_t> memoryBytes;
};

/// Sums seconds and weight bytes of devices.
DeviceForecast sumOf(llvm::ArrayRef<DeviceForecast> devices);

/// Forecast of one request that runs alone.
struct PlanForecast {
  /// The plan's schedule, with as many micro-batches as there are samples.
  plan::Schedule schedule;
  PipelineCosts costs;
  SimulationResult simulation;
  /// By rank.
  std::vector<DeviceForecast> devices;
};

/// Fails if `seconds` exceeds any plausible step and the range of trace times: plans and machine files are
/// untrusted. `name` is that of the plan or model.
llvm::Error checkSeconds(double seconds, llvm::StringRef name, llvm::StringRef remedy);

/// Forecast from the plan's predictions. Fails if there are none, or impossible ones: plans are untrusted.
/// `name` is the plan's, for errors.
llvm::Expected<PlanForecast> forecastOf(const plan::Plan &plan, llvm::StringRef name);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_FORECAST_H
