//===- StageStarts.h - Where stages are to begin ----------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_STAGESTARTS_H
#define CLEAVE_PARTITIONER_CUTTING_STAGESTARTS_H

#include "partitioner/cost/ModelGraph.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace cleave {

/// The nodes with which the modules of these paths begin (`--stage-before`), as CutRequest wants them. Fails
/// on a path of which no module does work, with the one that was probably meant.
llvm::Expected<std::vector<uint32_t>> stageStartsOf(const ModelGraph &model,
                                                    llvm::ArrayRef<std::string> paths);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_STAGESTARTS_H
