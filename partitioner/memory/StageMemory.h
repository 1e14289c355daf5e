//===- StageMemory.h - Bytes a stage holds while it runs --------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MEMORY_STAGEMEMORY_H
#define CLEAVE_PARTITIONER_MEMORY_STAGEMEMORY_H

#include "codegen/plan/Schedule.h"
#include "ir/Cleave.h"
#include "ir/ExampleShapes.h"
#include "ir/inference/ShapeInference.h"

namespace cleave {

/// Bytes on a stage's device, at the example sizes.
struct StageMemory {
  int64_t weightBytes = 0;
  /// Maximum alive at one time beside the weights: values until their last use, received values from the
  /// start on, outputs until the end, states, sums of gradients, and workspace of operators. The request's
  /// inputs belong to the caller and do not count; nor do an optimizer's states (optimizerBytes).
  int64_t activationBytes = 0;
};

/// The operations of a stage in order, whether or not the stage is already split from its function.
struct StageBody {
  /// `inputs`: all values that the stage takes. `requestInputs`: those of them that are inputs of the
  /// request.
  llvm::SmallVector<mlir::Value> inputs, requestInputs;
  llvm::SmallVector<mlir::Operation *> ops;
  /// By operation: values whose last use it is, or which it makes and nothing uses. A use inside a region
  /// counts for the operation that has the region. Values that stay until the end are left out.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> lastUses;
};

/// \param inferred  values of the function around the stage (see inferExampleShapes).
/// \param threads   threads that the device uses for an operator.
/// \param microbatches  of the device. A state with a batch dimension has rows for each of them; those of one
///     sequence id are counted.
StageMemory memoryOf(const StageBody &body, const InferredValues &inferred, const ExampleShapes &shapes,
                     int64_t threads, int64_t microbatches);
StageMemory memoryOf(StageOp stage, const InferredValues &inferred, const ExampleShapes &shapes,
                     int64_t threads, int64_t microbatches);

/// Of all programs of one stage, in the order of the actions of a rank that has it: what a program leaves for
/// others is held until they have run or it is sent, for each micro-batch. Values that stages of the same rank
/// exchange count from when they are taken.
StageMemory memoryOf(llvm::ArrayRef<StageOp> programs, llvm::ArrayRef<const plan::Action *> actions,
                     const InferredValues &inferred, const ExampleShapes &shapes, int64_t threads);

/// Bytes of the optimizer state of the weights that the stage updates.
int64_t optimizerBytes(StageOp update, const ExampleShapes &shapes);

/// Bytes of workspace that the operation allocates while it runs, besides its results.
int64_t workspaceOf(mlir::Operation *op, const ExampleShapes &shapes, int64_t threads);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MEMORY_STAGEMEMORY_H
