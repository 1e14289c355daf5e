//===- ArgumentCheckParts.h - Helpers of argument checks --------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKPARTS_H
#define CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKPARTS_H

#include "runtime/operators/ArgumentChecks.h"
#include "runtime/operators/ContainerAccount.h"
#include <ATen/core/Tensor.h>

namespace cleave::runtime {

/// The tensor of `value`; throws if it is undefined.
inline const at::Tensor &tensorOf(const c10::IValue &value) {
  const at::Tensor &tensor = value.toTensor();
  TORCH_CHECK(tensor.defined(), "found no tensor where one is expected");
  return tensor;
}

/// The tensor of an optional argument; null if it is missing.
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

/// Throws unless all `indices` are in [0, end).
void checkRange(const at::Tensor &indices, int64_t end);

/// Checks of operators that make lists and strings as long as their arguments say.
ArgumentCheck listCheckOf(llvm::StringRef name, llvm::StringRef overload);

/// Checks of operators that resize images by sizes as well as scales.
ArgumentCheck scaleCheckOf(llvm::StringRef name, llvm::StringRef overload);

/// Checks of operators whose kernels trust sizes, strides and numbers of dimensions.
ArgumentCheck shapeCheckOf(llvm::StringRef name);

/// Checks of convolutions, of quantized ones and of those in bfloat16.
ArgumentCheck convolutionCheckOf(llvm::StringRef name);

/// Checks of recurrent layers.
ArgumentCheck recurrentCheckOf(llvm::StringRef name, llvm::StringRef overload);

/// Checks of fused attention.
ArgumentCheck attentionCheckOf(llvm::StringRef name);

/// Checks of layers' gradients.
ArgumentCheck gradientCheckOf(llvm::StringRef name);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKPARTS_H
