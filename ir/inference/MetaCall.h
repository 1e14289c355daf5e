//===- MetaCall.h - Calls of operators without data -------------*- C++ -*-===//
//
// Private to ir/inference/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_INFERENCE_METACALL_H
#define CLEAVE_IR_INFERENCE_METACALL_H

#include "ir/OperatorDialect.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <optional>
#include <string>

namespace torch::jit {
struct Operator;
}

namespace cleave {

/// Why a call gave nothing.
struct CallFailure {
  /// The first sentence of what the operator said.
  std::string reason;
  /// The CPU's kernel refuses operands of these types, whatever their data.
  bool isRefusal = false;
  /// The model raises, and nothing but sizes leads there.
  bool isRaised = false;
};

/// A tensor of the meta device that looks like it.
at::Tensor withoutData(const at::Tensor &tensor);

/// Calls the operator with tensors of the meta device, and few known integers, on the stack, where its
/// results are then; what went wrong where that is not possible without data.
std::optional<CallFailure> callWithoutData(OperatorOp op, const torch::jit::Operator &callee,
                                           torch::jit::Stack &stack);

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_METACALL_H
