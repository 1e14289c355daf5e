//===- InferTypes.h - Writes inferred types on values -----------*- C++ -*-===//
#ifndef CLEAVE_IR_INFERENCE_INFERTYPES_H
#define CLEAVE_IR_INFERENCE_INFERTYPES_H

#include "ir/inference/ShapeInference.h"

namespace cleave {

/// `inferShapes` where states keep the type that they begin with. That holds where the function leaves such a
/// value, given such values; a state for which it does not becomes `!cleave.tensor`.
mlir::FailureOr<InferredValues> inferWithStates(mlir::func::FuncOp function);

/// Writes types of tensors, arguments of stages and the function, and the limits of its sizes.
void setInferredTypes(mlir::func::FuncOp function, const InferredValues &inferred);

/// Both.
mlir::LogicalResult inferTypes(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_INFERTYPES_H
