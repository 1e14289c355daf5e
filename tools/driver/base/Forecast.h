//===- Forecast.h - Simulated times and memory of a plan --------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_FORECAST_H
#define CLEAVE_TOOLS_DRIVER_BASE_FORECAST_H

#include "codegen/plan/Plan.h"
#include "partitioner/simulation/Simulator.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>

namespace cleave {

/// Simulated time and memory of a device for one request that runs alone.
struct DeviceForecast {
  std::vector<uint32_t> stages;
  double busySeconds, idleSeconds;
  /// Share of the request's time in which it is idle.
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
  /// The plan's schedule, without micro-batches that get no sample of the example batch.
  plan::Schedule schedule;
  PipelineCosts costs;
  SimulationResult simulation;
  /// By rank.
  std::vector<DeviceForecast> devices;
};

/// Fails if `seconds` is above 1e9, which no request takes and trace times cannot represent: plans and
/// machine files are untrusted. `name` is that of the plan or model.
llvm::Error checkSeconds(double seconds, llvm::StringRef name, llvm::StringRef remedy);

/// Forecast from the plan's predictions. Fails if there are none, or impossible ones: plans are untrusted.
/// `name` is the plan's, for errors.
llvm::Expected<PlanForecast> forecastOf(const plan::Plan &plan, llvm::StringRef name);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_FORECAST_H
