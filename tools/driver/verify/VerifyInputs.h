//===- VerifyInputs.h - Inputs of a verification ----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_VERIFYINPUTS_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_VERIFYINPUTS_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <string>
#include <vector>

namespace cleave {

/// The leaves of a signature's inputs.
using Inputs = std::vector<at::Tensor>;

/// Reads a safetensors file. It need not have the inputs that a training step adds to the model's
/// (ir/autograd/StepInputs.h), which are then 0, and 0, 1, … for the samples.
llvm::Expected<Inputs> readInputs(const plan::Signature &signature, const std::string &path);

/// Generates inputs of the traced sizes: numbers in [0, 1); zeros and ones for integers, which are valid
/// indices of any table.
Inputs makeInputs(const plan::Signature &signature);

/// The inputs with each dynamic dimension cut or repeated to `sizes`, one per symbol, so that values stay in
/// range.
Inputs resized(const plan::Signature &signature, llvm::ArrayRef<at::Tensor> inputs,
               llvm::ArrayRef<int64_t> sizes);

/// Sizes to try besides the traced ones, one per symbol: a nearby one, the minimum (models often branch at
/// 1), and a larger one, within the limits of the symbol and the sizes that witnesses cover. For dimensions
/// from 16 multiples of divisible_by on they are odd multiples, so that accidental divisibility does not hide
/// errors.
std::vector<std::vector<int64_t>> otherSizes(const plan::Signature &signature);

/// Inputs of `count` (at most 8) successive calls. Call i, from 0, has the elements of `first` rotated by i
/// positions and, if they are floating-point numbers, multiplied by 1 − i/8, so that calls differ and values
/// stay in their range.
std::vector<Inputs> inputsOfCalls(const Inputs &first, size_t count);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_VERIFYINPUTS_H
