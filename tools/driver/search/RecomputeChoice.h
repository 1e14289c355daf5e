//===- RecomputeChoice.h - Recomputation within memory ----------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_SEARCH_RECOMPUTECHOICE_H
#define CLEAVE_TOOLS_DRIVER_SEARCH_RECOMPUTECHOICE_H

#include "tools/driver/search/PlanMaker.h"

namespace cleave {

/// The modules whose activations the backward pass recomputes, so that a plan with gradients keeps within the
/// memory of its device (`shape`): the user's, if given; none, if all fits; else as few items of lists of
/// modules as suffice, from the first one on. While the last items are differentiated, the activations of the
/// first ones would be waiting, so that these are the ones to recompute.
///
/// Fails if the device has too little memory for that; the message says how much suffices.
llvm::Expected<std::vector<std::string>> chooseRecomputed(const CompileOptions &options,
                                                          const ModelSource &source,
                                                          mlir::MLIRContext &context,
                                                          const PipelineShape &shape);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_SEARCH_RECOMPUTECHOICE_H
