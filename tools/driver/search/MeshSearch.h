//===- MeshSearch.h - Searches for the fastest mesh -------------*- C++ -*-===//
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
  /// The plan, with its candidates.
  std::unique_ptr<plan::Plan> plan;
  /// Why devices are left unused.
  std::vector<std::string> notes;
};

/// Searches the meshes that `shape.search` leaves open: numbers of tensor-parallel ranks and of pipeline
/// ranks that divide the number of devices (all of them, or fewer if that is faster), stages per rank,
/// micro-batches. Each sharding is made once, by the passes; searchPipelines estimates its pipelines. The
/// fastest mesh that fits is made. If the passes reject it, or it takes more memory than estimated, the next
/// one is. A search that is stopped early (CompileOptions::stop) returns the best result so far.
llvm::Expected<ChosenMesh> searchMesh(PlanMaker &maker, const CompileOptions &options,
                                      const PipelineShape &shape);

/// As searchMesh, for training. A configuration that lacks memory is also tried with all weights split.
/// Chooses the fastest one that fits by these estimates, then forecasts it in full. If none fits, the error
/// names the memory that would suffice.
llvm::Expected<TrainingForecast> searchTraining(PlanMaker &maker, const CompileOptions &options,
                                                const PipelineShape &shape);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_SEARCH_MESHSEARCH_H
