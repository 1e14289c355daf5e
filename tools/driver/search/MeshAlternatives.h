//===- MeshAlternatives.h - What is said of meshes --------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_SEARCH_MESHALTERNATIVES_H
#define CLEAVE_TOOLS_DRIVER_SEARCH_MESHALTERNATIVES_H

#include "codegen/plan/Plan.h"
#include "partitioner/search/PipelineSearch.h"
#include "tools/driver/base/Mesh.h"

namespace cleave {

/// The chosen one first, then the others as they are ordered, with why each is not.
/// \param model  whose messages obstacles are.
plan::Alternatives alternativesTo(const Estimate &chosen, llvm::ArrayRef<Estimate> estimates,
                                  llvm::StringRef model);

/// Where the chosen one leaves some of `all` devices unused, that it does.
std::vector<std::string> noteUnused(llvm::ArrayRef<Estimate> estimates, const Estimate &chosen, uint32_t all);

/// Why none of them can be used, be it for memory or for what the model is.
llvm::Error noneIsUsable(llvm::ArrayRef<Estimate> estimates, llvm::StringRef model,
                         const PipelineShape &shape);

/// What helps where devices lack memory: more of them, or so many bytes, as the option that may say so has
/// them.
std::string remedyForMemory(const PipelineShape &shape, int64_t bytes);

/// Of the machine's devices, some of which are limited.
std::string roomOfEach(const PipelineShape &shape);

/// Why a shape is not used, of whose devices some are limited.
std::string lacksRoom(const PipelineShape &shape);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_SEARCH_MESHALTERNATIVES_H
