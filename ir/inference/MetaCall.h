//===- MetaCall.h - Calls of operators without data -------------*- C++ -*-===//
//
// Private to ir/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_INFERENCE_METACALL_H
#define CLEAVE_IR_INFERENCE_METACALL_H

#include "ir/Schemas.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <optional>
#include <string>

namespace torch::jit {
struct Operator;
}

namespace cleave {

/// Why a call gave no result.
struct CallFailure {
  /// The first sentence of the operator's error.
  std::string reason;
  /// The CPU kernel refuses operands of these types, whatever their data.
  bool isRefusal = false;
  /// The model raises an exception, depending on sizes alone.
  bool isRaised = false;
};

/// A meta tensor with the dtype, sizes and strides of `tensor`.
at::Tensor withoutData(const at::Tensor &tensor);

/// Calls the operator on meta tensors. A composite operator may have a kernel of ours for that.
void callOnMeta(const OperatorSchema &schema, const torch::jit::Operator &callee, torch::jit::Stack &stack);

/// Calls the operator with meta tensors and a few known integers from `stack`, and leaves its results there.
/// Returns the failure if the call is not possible without data.
std::optional<CallFailure> callWithoutData(const OperatorSchema &schema, const torch::jit::Operator &callee,
                                           torch::jit::Stack &stack);

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_METACALL_H
