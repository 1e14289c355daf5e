//===- Inputs.h - Whether a request fits its signature ----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXCHANGE_INPUTS_H
#define CLEAVE_RUNTIME_EXCHANGE_INPUTS_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <cstdint>
#include <vector>

namespace cleave::runtime {

/// The sizes of a signature's symbols in `inputs`. Fails where an input is not what the signature says: their
/// number, a dtype, a rank, a size that is fixed or that contradicts another use of its name, a tensor that
/// is not on the CPU; with `sizesAlone` it may also be of the device `meta`.
llvm::Expected<std::vector<int64_t>> bindSymbols(const plan::Signature &signature,
                                                 llvm::ArrayRef<at::Tensor> inputs, bool sizesAlone = false);

/// The inputs as programs were compiled for: their elements in order, none of them lazily conjugated, and in
/// storages that have nothing else, whatever they are slices of.
std::vector<at::Tensor> inOrder(llvm::ArrayRef<at::Tensor> inputs);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_INPUTS_H
