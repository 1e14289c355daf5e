//===- TypeConversion.h - TorchScript types as IR types ---------*- C++ -*-===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_TYPECONVERSION_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_TYPECONVERSION_H

#include "mlir/IR/BuiltinTypes.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>

namespace cleave {

/// Tensors are `!cleave.tensor`, until types are inferred; what the IR has no type for is `!cleave.any`.
mlir::Type convertType(const c10::TypePtr &type, mlir::MLIRContext *context);

/// The static type of a tensor, with its strides where they are not row-major. Null for a dtype the IR does
/// not have.
mlir::RankedTensorType tensorTypeOf(const at::Tensor &tensor, mlir::MLIRContext *context);

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_TYPECONVERSION_H
