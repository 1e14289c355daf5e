//===- DeviceCalls.h - What calls of a group give on GPUs -------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_DEVICECALLS_H
#define CLEAVE_RUNTIME_DEVICE_DEVICECALLS_H

#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/Tensor.h>

namespace cleave::runtime {

/// What a rank on `place` gets of what all ranks of its group gave, each on a device of its own, by
/// libtorch's copies between them and its operators: contiguous tensors of their own.

/// The sum, made in the order of ranks like that of `sumInOrder`, with the same bits.
at::Tensor sumOn(c10::Device place, llvm::ArrayRef<at::Tensor> given);

/// The pieces (collectives/Collectives.h), one after the other.
at::Tensor gatherOn(c10::Device place, llvm::ArrayRef<at::Tensor> given, int64_t dim, at::IntArrayRef pieces);

/// The ranges of each.
std::vector<at::Tensor> shardEach(llvm::ArrayRef<at::Tensor> given, int64_t dim, at::IntArrayRef ranges);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_DEVICECALLS_H
