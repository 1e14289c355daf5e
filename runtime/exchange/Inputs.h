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

/// The sizes of a signature's symbols, from `inputs`. Fails where the inputs do not match the signature:
/// their number, a dtype, a number of dimensions, a fixed size, a size that contradicts another use of its
/// symbol, or a tensor that is not on the CPU. With `sizesAlone` tensors may also be on the device `meta`.
llvm::Expected<std::vector<int64_t>> bindSymbols(const plan::Signature &signature,
                                                 llvm::ArrayRef<at::Tensor> inputs, bool sizesAlone = false);

/// The inputs as programs expect them: contiguous, not lazily conjugated, and each in a storage of its own.
std::vector<at::Tensor> canonicalized(llvm::ArrayRef<at::Tensor> inputs);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_INPUTS_H
