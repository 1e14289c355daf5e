//===- TrainingForecast.h - Forecast of a training step ---------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_SEARCH_TRAININGFORECAST_H
#define CLEAVE_TOOLS_DRIVER_SEARCH_TRAININGFORECAST_H

#include "partitioner/search/PipelineSearch.h"
#include "tools/driver/base/CompileOptions.h"

namespace cleave {

struct PipelineShape;

struct TrainingForecast {
  Configuration configuration;
  PipelineForecast pipeline;
  /// Devices of the machine, those of a pipeline rank next to each other.
  std::vector<std::string> devices;
  /// Set if the mesh was searched for, as in a plan.
  plan::MeshCandidates candidates;
  std::vector<std::string> notes;
};

/// `none`, `selective`, `full`.
llvm::StringRef recomputeName(std::optional<RecomputeKind> recompute);

/// Forecasts one training step of the model in the options, whose `training` is set. Writes nothing.
llvm::Expected<TrainingForecast> forecastTraining(const CompileOptions &options);

/// Sets what `mesh` leaves open in the options of a plan that trains: mesh, schedule, micro-batches and
/// recomputation with the least forecast time, in one pipeline: gradients are not summed over data-parallel
/// ranks yet.
llvm::Expected<TrainingForecast> chooseTrainingMesh(CompileOptions &options);

/// Forecasts for several memory limits, one after the other, as Planner does.
class TrainingForecaster {
public:
  explicit TrainingForecaster(CompileOptions options);
  ~TrainingForecaster();
  /// \param deviceMemory  as in CompileOptions.
  llvm::Expected<TrainingForecast> forecast(std::optional<int64_t> deviceMemory);

private:
  struct Model;
  llvm::Error read(const PipelineShape &shape);

  CompileOptions options;
  /// Set once the model has been read.
  std::unique_ptr<Model> model;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_SEARCH_TRAININGFORECAST_H
