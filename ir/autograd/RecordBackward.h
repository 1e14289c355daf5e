//===- RecordBackward.h - PyTorch's backward pass of one call ---*- C++ -*-===//
//
// Private to ir/autograd/. RecordBackward.cpp alone relies on internals of libtorch's autograd.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_AUTOGRAD_RECORDBACKWARD_H
#define CLEAVE_IR_AUTOGRAD_RECORDBACKWARD_H

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <string>
#include <vector>

namespace torch::jit {
struct Operator;
}

namespace cleave {

/// Identifies a tensor in a recording; -1 stands for one that is absent: an optional operand, a gradient that
/// is zero.
using TensorId = int64_t;

/// An operand or result of a recorded call.
struct RecordedValue {
  enum class Kind {
    Tensor,  ///< tensors[0]
    Tensors, ///< a list of tensors
    Constant ///< `constant`: a scalar, a list of scalars, or a 0-d tensor that was a number
  };
  Kind kind = Kind::Constant;
  std::vector<TensorId> tensors;
  c10::IValue constant;
  /// The argument is a size or a list of sizes (`SymInt`), or a number (`Scalar`); other integers are indices
  /// of dimensions and flags.
  bool isSize = false, isScalar = false;
};

struct RecordedCall {
  /// As in the IR: `aten.mul.Tensor`.
  std::string irName;
  std::vector<RecordedValue> operands, results;
};

/// A forward and a backward pass as calls of operators without in-place changes.
struct Recording {
  std::vector<RecordedCall> calls;
  /// calls[0, numForwardCalls) are the forward pass.
  size_t numForwardCalls = 0;
  /// The tensors among the operands, those of lists included, in order; and the same of the results.
  std::vector<TensorId> operands, results;
  /// By result: its gradient, an input of the backward pass; -1 where none is given.
  std::vector<TensorId> gradOutputs;
  /// By operand: its gradient; -1 where it is not wanted, or zero.
  std::vector<TensorId> gradInputs;
};

/// Records the forward and backward pass of a call, by libtorch's own formulas for the CPU.
///
/// \param operands  the call's operands; of tensors only shape, dtype and strides are read.
/// \param gradients  by tensor among the results: a tensor with the type and strides of its gradient;
/// undefined if the gradient is zero. The gradient of a result that does not require grad is ignored.
/// \param needsInputGrad  by tensor among the operands: its gradient is wanted; it is a floating-point tensor
/// then.
/// \throws std::exception if a call depends on data, or has no derivative.
Recording recordBackward(const torch::jit::Operator &callee, const torch::jit::Stack &operands,
                         const std::vector<at::Tensor> &gradients, const std::vector<bool> &needsInputGrad);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_RECORDBACKWARD_H
