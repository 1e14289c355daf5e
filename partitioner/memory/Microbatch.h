//===- Microbatch.h - A function at the size of a micro-batch ---*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MEMORY_MICROBATCH_H
#define CLEAVE_PARTITIONER_MEMORY_MICROBATCH_H

#include "ir/ExampleShapes.h"
#include "ir/inference/ShapeInference.h"

namespace cleave {

/// Inferred values and shapes of a function that runs on one micro-batch of the example inputs.
struct Microbatch {
  InferredValues inferred;
  ExampleShapes shapes;
  /// True if the micro-batch is smaller than the whole batch.
  bool isPart;

  /// The largest of `count` micro-batches. Fails with a diagnostic if the function does not run at that size.
  /// \param batch  the dimension that micro-batches split; may be empty if `count` is 1.
  static mlir::FailureOr<Microbatch> of(mlir::func::FuncOp function, llvm::StringRef batch, int64_t count);
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MEMORY_MICROBATCH_H
