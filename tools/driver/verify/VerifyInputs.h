//===- VerifyInputs.h - Inputs of a verification ----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_VERIFYINPUTS_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_VERIFYINPUTS_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <string>
#include <vector>

namespace cleave {

/// The leaves of a signature's inputs.
using Inputs = std::vector<at::Tensor>;

/// `gpt2.pt` → `gpt2.inputs.safetensors`; empty if it does not exist, or is a link, whose target is not to be
/// trusted.
std::string inputsBeside(llvm::StringRef model);

/// Reads a safetensors file. It need not have the inputs that a training step adds to the model's
/// (`learning_rate`, `step`), which are then 0.
llvm::Expected<Inputs> readInputs(const plan::Signature &signature, const std::string &path);

/// Generates inputs of the traced sizes: numbers in [0, 1); zeros and ones for integers, which are valid
/// indices of any table.
Inputs makeInputs(const plan::Signature &signature);

/// The inputs with each dynamic dimension cut or repeated to `sizes`, one per symbol, so that values stay in
/// range.
Inputs resized(const plan::Signature &signature, llvm::ArrayRef<at::Tensor> inputs,
               llvm::ArrayRef<int64_t> sizes);

/// Sizes to try besides the traced ones, one per symbol: one more of small dimensions and about half of large
/// ones; 1, where models like to behave in their own way; and more of each. Odd ones, so that nothing divides
/// them, times what they must be multiples of, and none at which the model does not run.
std::vector<std::vector<int64_t>> otherSizes(const plan::Signature &signature);

/// Inputs of `count` successive calls: the same values rolled, and numbers scaled down, so that they stay in
/// range.
std::vector<Inputs> inputsOfCalls(const Inputs &first, size_t count);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_VERIFYINPUTS_H
