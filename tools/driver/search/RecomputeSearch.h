//===- RecomputeSearch.h - Recomputation within memory ----------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_SEARCH_RECOMPUTESEARCH_H
#define CLEAVE_TOOLS_DRIVER_SEARCH_RECOMPUTESEARCH_H

#include "tools/driver/search/PlanMaker.h"

namespace cleave {

/// Chooses what activation recomputation recomputes (GradientOptions::recompute): the user's choice, if
/// given; else nothing, if the step fits the memory of the devices (`shape`); else what is cheap
/// (RecomputeKind::MinimumCut); else, besides, the first N items of the model's lists of modules, with the
/// smallest N that fits: backward reaches the first items last, so their activations would live longest. Each
/// trial makes a plan. Fails if neither all items nor less fit; the message gives the least memory that was
/// found.
llvm::Expected<std::vector<std::string>> chooseRecomputed(const CompileOptions &options,
                                                          const ModelSource &source,
                                                          mlir::MLIRContext &context,
                                                          const PipelineShape &shape);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_SEARCH_RECOMPUTESEARCH_H
