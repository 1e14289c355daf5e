//===- StageStarts.h - Where stages are to begin ----------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_STAGESTARTS_H
#define CLEAVE_PARTITIONER_CUTTING_STAGESTARTS_H

#include "partitioner/cost/ModelGraph.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace cleave {

/// The first nodes of the modules with these paths (`--stage-before`), as CutRequest::stageStarts. Fails on a
/// path whose module has no node; the message suggests the nearest path.
llvm::Expected<std::vector<uint32_t>> stageStartsOf(const ModelGraph &model,
                                                    llvm::ArrayRef<std::string> paths);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_STAGESTARTS_H
