//===- ArgumentCheckParts.h - Parts of the table of checks ------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKPARTS_H
#define CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKPARTS_H

#include "runtime/operators/ArgumentChecks.h"
#include <ATen/core/Tensor.h>

namespace cleave::runtime {

/// The tensor of `value`; throws if it is undefined.
inline const at::Tensor &tensorOf(const c10::IValue &value) {
  const at::Tensor &tensor = value.toTensor();
  TORCH_CHECK(tensor.defined(), "found no tensor where one is expected");
  return tensor;
}

/// Throws unless all `indices` are from 0 to `end` - 1.
void checkRange(const at::Tensor &indices, int64_t end);

/// Of operators whose lists and strings are as long as their arguments say.
ArgumentCheck listCheckOf(llvm::StringRef name, llvm::StringRef overload);

/// Of operators that resize images, and are told sizes as well as scales.
ArgumentCheck scaleCheckOf(llvm::StringRef name, llvm::StringRef overload);

/// Of recurrent layers.
ArgumentCheck recurrentCheckOf(llvm::StringRef name, llvm::StringRef overload);

/// Of fused self-attention.
ArgumentCheck attentionCheckOf(llvm::StringRef name);

/// Of gradients of layers.
ArgumentCheck gradientCheckOf(llvm::StringRef name);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORS_ARGUMENTCHECKPARTS_H
