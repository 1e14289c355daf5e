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

/// While it lives, operators that this thread calls are recorded by autograd. The executor runs the block of
/// a `Vjp` instruction inside, on `inputs()`, then calls `finish`.
class AutogradScope {
public:
  /// \param operands  grad_outputs, then the inputs, as of the instruction. Tensors share the memory of
  /// these. \param outputCount  number of results of the block, 1 or more. \param gradientCount  the first so
  /// many inputs, floating-point tensors, get gradients.
  AutogradScope(llvm::ArrayRef<c10::IValue> operands, size_t outputCount, size_t gradientCount);

  /// The parameters of the block.
  llvm::ArrayRef<c10::IValue> inputs() const { return inputValues; }
  /// Replaces the results of the block on the stack by the gradients, with the strides of `empty_like` of
  /// their inputs, followed by these results. Throws c10::Error as torch::autograd::grad does, such as for a
  /// gradient of another shape than its output.
  void finish(torch::jit::Stack &stack) const;

private:
  // Declared first: the constructor's tensors must be made outside inference mode.
  c10::InferenceMode noInference{false};
  at::AutoGradMode gradMode{true};
  std::vector<at::Tensor> gradOutputs, leaves;
  std::vector<c10::IValue> inputValues;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXECUTOR_VJP_H
