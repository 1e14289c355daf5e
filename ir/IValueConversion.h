//===- IValueConversion.h - IR values as TorchScript values -----*- C++ -*-===//
//
// For ir/ and importers: converts attributes and types of the IR to libtorch's IValues and back. Of the
// headers of ir/ that other folders include, the only one that mentions libtorch.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_IVALUECONVERSION_H
#define CLEAVE_IR_IVALUECONVERSION_H

#include "ir/Cleave.h"
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/runtime/operator.h>

namespace cleave {

/// The dtype of an element type (`i1` is bool); nothing for a type that no tensor has.
std::optional<at::ScalarType> scalarTypeOf(mlir::Type element);
/// Null for a dtype that the IR has no element type for.
mlir::Type elementTypeOf(at::ScalarType dtype, mlir::MLIRContext *context);

/// The TorchScript type of an IR type, for the element types of lists and dicts; `Any` for a type without
/// one.
c10::TypePtr torchTypeOf(mlir::Type type);

/// The value of a constant of the given type.
c10::IValue toIValue(mlir::Attribute value, mlir::Type type);
/// The attribute of a value; null if the value is or holds a tensor or an object.
mlir::Attribute toAttribute(const c10::IValue &value, mlir::MLIRContext *context);

/// The registered operator of an IR name; null if there is none. Resolved once per process.
std::shared_ptr<torch::jit::Operator> findOperator(llvm::StringRef irName);

} // namespace cleave

#endif // CLEAVE_IR_IVALUECONVERSION_H
