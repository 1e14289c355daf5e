//===- InferTypes.h - Writes inferred types on values -----------*- C++ -*-===//
#ifndef CLEAVE_IR_INFERENCE_INFERTYPES_H
#define CLEAVE_IR_INFERENCE_INFERTYPES_H

#include "ir/inference/ShapeInference.h"

namespace cleave {

/// Like `inferShapes`, with states of the type that they begin with. A state keeps that type if the function,
/// given such states, leaves a value of that type in it; otherwise it becomes `!cleave.tensor`, and has no
/// rows for the batch.
mlir::FailureOr<InferredValues> inferWithStates(mlir::func::FuncOp function);

/// Writes the types of tensor values, stage arguments and the function itself, and the attributes for the
/// sizes at which the function runs.
void setInferredTypes(mlir::func::FuncOp function, const InferredValues &inferred);

/// inferWithStates, then setInferredTypes. Fails with a diagnostic if the function does not run.
mlir::LogicalResult inferTypes(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_INFERTYPES_H
