//===- InferTypes.h - Writes inferred types on values -----------*- C++ -*-===//
#ifndef CLEAVE_IR_INFERENCE_INFERTYPES_H
#define CLEAVE_IR_INFERENCE_INFERTYPES_H

#include "ir/inference/ShapeInference.h"

namespace cleave {

/// `inferShapes` where states keep the type that they begin with. That holds where the function leaves such a
/// value, given such values; a state for which it does not becomes `!cleave.tensor`.
mlir::FailureOr<InferredValues> inferWithStates(mlir::func::FuncOp function);

/// Sets the types of tensor values, of the arguments of stages and of the function itself, and the function's
/// attributes that say at which sizes it runs.
void setInferredTypes(mlir::func::FuncOp function, const InferredValues &inferred);

/// inferWithStates, then setInferredTypes. Fails, with a diagnostic, where the function does not run.
mlir::LogicalResult inferTypes(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_INFERTYPES_H
