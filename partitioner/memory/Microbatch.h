//===- Microbatch.h - A function on a part of the batch ---------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MEMORY_MICROBATCH_H
#define CLEAVE_PARTITIONER_MEMORY_MICROBATCH_H

#include "ir/ExampleShapes.h"
#include "ir/inference/ShapeInference.h"

namespace cleave {

/// What is known of a function's values while it runs on one micro-batch of the example inputs.
struct Microbatch {
  InferredValues inferred;
  ExampleShapes shapes;
  /// It is not the whole batch.
  bool isPart;

  /// The largest of `count`. Fails, with a diagnostic, where the function does not run.
  /// \param batch  the dimension that they split; may be empty where there is one.
  static mlir::FailureOr<Microbatch> of(mlir::func::FuncOp function, llvm::StringRef batch, int64_t count);
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MEMORY_MICROBATCH_H
