//===- ArgumentCheckParts.h - Parts of the table of checks ------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKPARTS_H
#define CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKPARTS_H

#include "runtime/operators/ArgumentChecks.h"
#include "runtime/operators/HostValues.h"
#include <ATen/core/Tensor.h>

namespace cleave::runtime {

/// The tensor of `value`; throws if it is undefined.
inline const at::Tensor &tensorOf(const c10::IValue &value) {
  const at::Tensor &tensor = value.toTensor();
  TORCH_CHECK(tensor.defined(), "found no tensor where one is expected");
  return tensor;
}

/// The tensor of an argument that may be left out; null where it is.
inline const at::Tensor *optionalTensorOf(const c10::IValue &value) {
  return value.isTensor() && value.toTensor().defined() ? &value.toTensor() : nullptr;
}

/// Throws unless `tensor` has the sizes `expected`. `what` is its name in the message.
inline void checkSizes(const at::Tensor &tensor, at::IntArrayRef expected, const char *what) {
  TORCH_CHECK(tensor.sizes() == expected, "found ", what, " ", tensor.sizes(), ", expected ", expected);
}

/// Throws unless `tensor` has the dtype `expected`.
inline void checkDType(const at::Tensor &tensor, at::ScalarType expected) {
  TORCH_CHECK(tensor.scalar_type() == expected, "found ", tensor.scalar_type(), ", expected ", expected);
}

/// Throws unless all `indices` are from 0 to `end` - 1.
void checkRange(const at::Tensor &indices, int64_t end);

/// Of operators whose lists and strings are as long as their arguments say.
ArgumentCheck listCheckOf(llvm::StringRef name, llvm::StringRef overload);

/// Of operators that resize images, and are told sizes as well as scales.
ArgumentCheck scaleCheckOf(llvm::StringRef name, llvm::StringRef overload);

/// Of operators whose kernels trust sizes, strides and numbers of dimensions.
ArgumentCheck shapeCheckOf(llvm::StringRef name);

/// Of recurrent layers.
ArgumentCheck recurrentCheckOf(llvm::StringRef name, llvm::StringRef overload);

/// Of fused attention.
ArgumentCheck attentionCheckOf(llvm::StringRef name);

/// Of gradients of layers.
ArgumentCheck gradientCheckOf(llvm::StringRef name);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKPARTS_H
