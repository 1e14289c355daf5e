//===- TypeConversion.h - TorchScript types as IR types ---------*- C++ -*-===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_TYPECONVERSION_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_TYPECONVERSION_H

#include "mlir/IR/BuiltinTypes.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>

namespace cleave {

/// Tensors become `!cleave.tensor` until types are inferred; a type that the IR lacks becomes `!cleave.any`.
mlir::Type convertType(const c10::TypePtr &type, mlir::MLIRContext *context);

/// The static type of a tensor, with its strides if they are not row-major. Null for a dtype that the IR
/// lacks.
mlir::RankedTensorType tensorTypeOf(const at::Tensor &tensor, mlir::MLIRContext *context);

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_TYPECONVERSION_H
