//===- MemoryPlan.h - Bytes a stage holds while it runs ---------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MEMORY_MEMORYPLAN_H
#define CLEAVE_PARTITIONER_MEMORY_MEMORYPLAN_H

#include "ir/Cleave.h"
#include "ir/ExampleShapes.h"
#include "ir/inference/ShapeInference.h"

namespace cleave {

/// What a stage's device holds, at the traced sizes.
struct StageMemory {
  int64_t weightBytes = 0;
  /// Most bytes alive at one time beside the weights: values until their last use, what came from other
  /// stages from the start on, outputs until the end, states, and what operators allocate for themselves. The
  /// request's inputs are the caller's.
  int64_t activationBytes = 0;
};

/// What a stage runs, in order, be it split from its function already or not.
struct StageBody {
  /// Values that it takes, and those of them that are the request's inputs.
  llvm::SmallVector<mlir::Value> inputs, requests;
  llvm::SmallVector<mlir::Operation *> ops;
  /// Values by the operation that uses them last, or makes them where none does; a use inside a region counts
  /// for the operation around it. What stays until the end is left out.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> lastUses;
};

/// \param inferred  of the function around the stage (see inferExampleShapes).
/// \param threads   that the device has for an operator.
StageMemory memoryOf(const StageBody &body, const InferredValues &inferred, const ExampleShapes &shapes,
                     int64_t threads);
StageMemory memoryOf(StageOp stage, const InferredValues &inferred, const ExampleShapes &shapes,
                     int64_t threads);

/// Bytes that the operation allocates while it runs, beyond its results.
int64_t workspaceOf(mlir::Operation *op, const ExampleShapes &shapes, int64_t threads);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MEMORY_MEMORYPLAN_H
