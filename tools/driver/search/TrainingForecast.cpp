//===- TrainingForecast.cpp - Forecast of a training step -----------------===//
#include "tools/driver/search/TrainingForecast.h"
#include "ir/semantics/OpSemantics.h"
#include "tools/driver/base/Forecast.h"
#include "tools/driver/base/Mesh.h"
#include "tools/driver/base/ModelSource.h"
#include "tools/driver/search/MeshSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {

llvm::StringRef recomputeName(std::optional<RecomputeKind> recompute) {
  return recompute ? nameOf(*recompute) : "none";
}

struct TrainingForecaster::Model {
  CompileOptions options;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  ModelSource source;
  std::optional<PlanMaker> maker;
};

TrainingForecaster::TrainingForecaster(CompileOptions all) : options(std::move(all)) {
  options.writePlan = false;
}
TrainingForecaster::~TrainingForecaster() = default;

llvm::Error TrainingForecaster::read(const PipelineShape &shape) {
  auto read = std::make_unique<Model>();
  read->options = options;
  // 0 names the batch dimension even without micro-batches, since data-parallel ranks split it.
  read->options.microbatches = shape.search->dataParallelSize == 1 ? shape.microbatches : 0;
  // The search reports its own progress.
  read->options.progress = nullptr;
  if (auto error = readModel(read->options, read->context).moveInto(read->source))
    return error;
  if (!llvm::hasSingleElement(read->source.model.module->getOps<mlir::func::FuncOp>()))
    return llvm::createStringError(options.model + ": found several signatures, expected one; a training "
                                                   "step is that of one");
  for (auto function : read->source.model.module->getOps<mlir::func::FuncOp>())
    function->setAttr(kTrainingAttr, mlir::UnitAttr::get(&read->context));
  read->maker.emplace(read->options, read->source, read->context);
  model = std::move(read);
  return llvm::Error::success();
}

llvm::Expected<TrainingForecast> TrainingForecaster::forecast(std::optional<int64_t> deviceMemory) {
  options.deviceMemory = deviceMemory;
  auto shape = readPipelineShape(options);
  if (!shape)
    return shape.takeError();
  if (!model)
    if (auto error = read(*shape))
      return error;
  shape->batch = model->source.batch;
  auto result = searchTraining(*model->maker, options, *shape);
  if (!result)
    return result;
  llvm::append_range(result->notes, noteDevicesLeft(options, *shape, result->configuration.devices()));
  if (auto error = checkSeconds(result->pipeline.seconds, options.model,
                                "use a --machine whose devices and links are faster"))
    return error;
  return result;
}

llvm::Expected<TrainingForecast> forecastTraining(const CompileOptions &options) {
  return TrainingForecaster(options).forecast(options.deviceMemory);
}

/// What forecasts take for the given --recompute. They know `selective` and `full` alone.
static std::string forecastRecomputation(llvm::ArrayRef<std::string> given) {
  if (given.empty())
    return "auto";
  const bool isKnown = given.size() == 1 && (given.front() == "full" || given.front() == "selective");
  return isKnown ? given.front() : "none";
}

llvm::Expected<TrainingForecast> chooseTrainingMesh(CompileOptions &options) {
  CompileOptions forecasting = options;
  if (forecasting.mesh == "auto")
    forecasting.mesh = "pp=auto,tp=auto";
  const std::vector<std::string> given = options.gradients->recompute;
  forecasting.training = TrainingChoice{.recompute = forecastRecomputation(given), .zero = 0};
  forecasting.gradients.reset();
  auto forecast = forecastTraining(forecasting);
  if (!forecast)
    return forecast;
  const Configuration &chosen = forecast->configuration;
  options.mesh = llvm::formatv("pp={0},tp={1}", chosen.pipelineParallelSize, chosen.tensorParallelSize).str();
  options.microbatches = chosen.microbatches;
  options.schedule = chosen.pipelineParallelSize > 1 ? forecast->pipeline.schedule.name : "";
  if (forecasting.training->recompute == "none")
    forecast->notes.push_back(
        "the mesh was chosen as if nothing were recomputed: forecasts do not know --recompute " +
        llvm::join(given, ", "));
  if (!options.gradients->trainable.empty() ||
      !llvm::StringRef(options.gradients->update->optimizer).starts_with("adam"))
    forecast->notes.push_back("the mesh was chosen as if Adam updated all weights: forecasts do not know "
                              "--trainable and --optimizer");
  return forecast;
}

} // namespace cleave
