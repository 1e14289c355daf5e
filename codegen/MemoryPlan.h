//===- MemoryPlan.h - Bytes a stage holds while it runs ---------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_MEMORYPLAN_H
#define CLEAVE_CODEGEN_MEMORYPLAN_H

#include "ir/Cleave.h"
#include "ir/TracedShapes.h"
#include "ir/inference/ShapeInference.h"

namespace cleave {

/// What a stage's device holds, at the traced sizes.
struct StageMemory {
  int64_t weightBytes = 0;
  /// Most bytes alive at one time beside the weights: values until their last use, what came from other stages from the
  /// start on, outputs until the end, states, and what operators allocate for themselves. The request's inputs are the
  /// caller's.
  int64_t activationBytes = 0;
};

/// \param inferred  of the function around the stage (see inferTracedShapes).
/// \param threads   that the device has for an operator.
StageMemory memoryOf(StageOp stage, const InferredValues &inferred, const TracedShapes &shapes, int64_t threads);

} // namespace cleave

#endif // CLEAVE_CODEGEN_MEMORYPLAN_H
