//===- TrainingForecast.cpp - What a training step would take -------------===//
#include "tools/driver/TrainingForecast.h"
#include "ir/semantics/OpSemantics.h"
#include "tools/driver/Mesh.h"
#include "tools/driver/MeshSearch.h"
#include "tools/driver/ModelSource.h"

namespace cleave {

llvm::StringRef nameOf(Recompute recompute) {
  switch (recompute) {
  case Recompute::None:
    return "none";
  case Recompute::Selective:
    return "selective";
  case Recompute::Full:
    return "full";
  }
  llvm_unreachable("all have names");
}

llvm::Expected<TrainingForecast> forecastTraining(const CompileOptions &options) {
  auto shape = readPipelineShape(options);
  if (!shape)
    return shape.takeError();
  CompileOptions chosen = options;
  // Pipelines side by side split the batch, too, which is named for that.
  chosen.microbatches = shape->search->dataRanks == 1 ? shape->microbatches : 0;
  chosen.writesPlan = false;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto source = readModel(chosen, context);
  if (!source)
    return source.takeError();
  shape->batch = source->batch;
  for (auto function : source->model.module->getOps<mlir::func::FuncOp>())
    function->setAttr(kTrainingAttr, mlir::UnitAttr::get(&context));
  // The search tells how far it is as a whole.
  chosen.progress = nullptr;
  PlanMaker maker(chosen, *source, context);
  return searchTraining(maker, options, *shape);
}

} // namespace cleave
