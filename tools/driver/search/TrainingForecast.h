//===- TrainingForecast.h - What a training step would take -----*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_SEARCH_TRAININGFORECAST_H
#define CLEAVE_TOOLS_DRIVER_SEARCH_TRAININGFORECAST_H

#include "partitioner/search/PipelineSearch.h"
#include "tools/driver/base/CompileOptions.h"

namespace cleave {

struct PipelineShape;

struct TrainingForecast {
  Configuration configuration;
  PipelineForecast pipeline;
  /// Of the machine, those of a pipeline rank side by side.
  std::vector<std::string> devices;
  /// Where the mesh was searched for: as a plan has them.
  plan::Alternatives alternatives;
  std::vector<std::string> notes;
};

/// `none`, `selective`, `full`.
llvm::StringRef nameOf(Recompute recompute);

/// One step of training the model of the options, whose `training` is set. Nothing is written.
llvm::Expected<TrainingForecast> forecastTraining(const CompileOptions &options);

/// The same for one limit of memory after the other, as Planner makes plans.
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
  /// Once it is read.
  std::unique_ptr<Model> model;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_SEARCH_TRAININGFORECAST_H
