//===- MeshSearch.h - The mesh that takes least time ------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_SEARCH_MESHSEARCH_H
#define CLEAVE_TOOLS_DRIVER_SEARCH_MESHSEARCH_H

#include "tools/driver/search/PlanMaker.h"
#include "tools/driver/search/TrainingForecast.h"

namespace cleave {

struct ChosenMesh {
  PipelineShape shape;
  /// With its alternatives.
  std::unique_ptr<plan::Plan> plan;
  /// Why devices are left unused.
  std::vector<std::string> notes;
};

/// Weighs the ways to use the devices that `shape.search` leaves open: numbers of tensor ranks and of pipeline ranks that
/// divide the devices' (all of them, or fewer where that is faster), stages of a rank, micro-batches. Each sharding is made
/// once, by the passes; searchPipelines estimates its pipelines. The fastest that fits is made; where the passes refuse it,
/// or it takes more memory than estimated, the next. A search that is ended early (CompileOptions::stop) has the best so far.
llvm::Expected<ChosenMesh> searchMesh(PlanMaker &maker, const CompileOptions &options, const PipelineShape &shape);

/// Weighs training the same way, what lacks memory also with all weights split; what is chosen is the fastest that
/// fits by these estimates, and follows in full. Where none fits, what the error names is enough.
llvm::Expected<TrainingForecast> searchTraining(PlanMaker &maker, const CompileOptions &options, const PipelineShape &shape);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_SEARCH_MESHSEARCH_H
