//===- MeshCandidates.h - Candidates beside a chosen mesh -------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_SEARCH_MESHCANDIDATES_H
#define CLEAVE_TOOLS_DRIVER_SEARCH_MESHCANDIDATES_H

#include "codegen/plan/Plan.h"
#include "partitioner/search/PipelineSearch.h"
#include "tools/driver/base/Mesh.h"

namespace cleave {

/// The chosen mesh first, then the others, best first, with the reason why each was not chosen.
/// \param model  name of the model, for messages.
plan::MeshCandidates meshCandidates(const Estimate &chosen, llvm::ArrayRef<Estimate> estimates,
                                    llvm::StringRef model);

/// A note if the chosen mesh leaves some of `all` devices unused.
std::vector<std::string> noteUnused(llvm::ArrayRef<Estimate> estimates, const Estimate &chosen, uint32_t all);

/// The error if no mesh can be used, because of memory or of the model.
llvm::Error noUsableMeshError(llvm::ArrayRef<Estimate> estimates, llvm::StringRef model,
                              const PipelineShape &shape);

/// Remedy for too little memory: more devices, or `bytes`, worded as the option that can give them.
std::string remedyForMemory(const PipelineShape &shape, int64_t bytes);

/// The memory limits of the machine's devices, as text. At least one device is limited.
std::string memoryLimitsText(const PipelineShape &shape);

/// Why a shape was not chosen: its devices, whose memory is limited, have too little.
std::string memoryShortageReason(const PipelineShape &shape);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_SEARCH_MESHCANDIDATES_H
