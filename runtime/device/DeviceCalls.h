//===- DeviceCalls.h - Results of collectives on GPUs -----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_DEVICECALLS_H
#define CLEAVE_RUNTIME_DEVICE_DEVICECALLS_H

#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/Tensor.h>

namespace cleave::runtime {

/// The result of a rank on the device `place`, from the tensors of all ranks of its group, each on a device
/// of its own. Uses libtorch's device-to-device copies and operators. Results are contiguous and own their
/// memory.

/// The sum in rank order, bitwise equal to `sumInOrder`.
at::Tensor sumOn(c10::Device place, llvm::ArrayRef<at::Tensor> given);

/// Concatenates the pieces (collectives/Collectives.h).
at::Tensor gatherOn(c10::Device place, llvm::ArrayRef<at::Tensor> given, int64_t dim, at::IntArrayRef pieces);

/// The ranges of each tensor.
std::vector<at::Tensor> shardEach(llvm::ArrayRef<at::Tensor> given, int64_t dim, at::IntArrayRef ranges);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_DEVICECALLS_H
