//===- Vjp.h - Gradients by PyTorch's autograd ------------------*- C++ -*-===//
//
// Private to runtime/executor/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_EXECUTOR_VJP_H
#define CLEAVE_RUNTIME_EXECUTOR_VJP_H

#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/InferenceMode.h>
#include <vector>

namespace cleave::runtime {

/// A vector-Jacobian product. What the thread calls while this lives is recorded by autograd.
class Vjp {
public:
  /// \param operands  the gradients of the values, then the inputs. Tensors share the memory of these.
  /// \param valueCount  number of values, 1 or more.
  /// \param gradientCount  of so many inputs, from the first on, gradients are wanted: floating-point
  /// tensors.
  Vjp(llvm::ArrayRef<c10::IValue> operands, size_t valueCount, size_t gradientCount);

  /// The inputs, for what is computed.
  llvm::ArrayRef<c10::IValue> inputs() const { return given; }
  /// Replaces the values on the stack by the gradients, with the strides of `empty_like` of their inputs, and
  /// the values after them. Throws c10::Error as autograd does, such as for a gradient of another shape than
  /// its value.
  void finish(torch::jit::Stack &stack) const;

private:
  // Operators' results are tensors of autograd's, within a request that is in inference mode.
  c10::InferenceMode normal{false};
  at::AutoGradMode records{true};
  std::vector<at::Tensor> gradients, wanted;
  std::vector<c10::IValue> given;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_VJP_H
