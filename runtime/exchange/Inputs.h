//===- Inputs.h - Checks the inputs of a request ----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXCHANGE_INPUTS_H
#define CLEAVE_RUNTIME_EXCHANGE_INPUTS_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <cstdint>
#include <vector>

namespace cleave::runtime {

struct BindOptions {
  /// Tensors may also be on the device `meta`.
  bool sizesAlone = false;
  /// Accept sizes at which the trace was not compared with the module (SessionOptions::beyondWitnesses).
  bool beyondWitnesses = false;
};

/// The sizes of a signature's symbols, from `inputs`. Fails where the inputs do not match the signature:
/// their number, a dtype, a number of dimensions, a fixed size, a size outside the range that a symbol has or
/// that contradicts another use of it, or a tensor that is not on the CPU.
llvm::Expected<std::vector<int64_t>> bindSymbols(const plan::Signature &signature,
                                                 llvm::ArrayRef<at::Tensor> inputs, BindOptions options = {});

/// The inputs as programs expect them: contiguous, not lazily conjugated, and each in a storage of its own.
std::vector<at::Tensor> canonicalized(llvm::ArrayRef<at::Tensor> inputs);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_INPUTS_H
