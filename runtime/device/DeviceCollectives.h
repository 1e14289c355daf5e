//===- DeviceCollectives.h - Results of collectives on GPUs -----*- C++ -*-===//
//
// The result of a rank on a device, from the tensors of all ranks of its group, each on a device of its own.
// Uses libtorch's device-to-device copies and operators. Results are contiguous and own their memory.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_DEVICE_DEVICECOLLECTIVES_H
#define CLEAVE_RUNTIME_DEVICE_DEVICECOLLECTIVES_H

#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/Tensor.h>

namespace cleave::runtime {

/// The sum in rank order, bitwise equal to `sumInOrder`.
at::Tensor sumOn(c10::Device device, llvm::ArrayRef<at::Tensor> given);

/// Concatenates the pieces (collectives/Collectives.h).
at::Tensor gatherOn(c10::Device device, llvm::ArrayRef<at::Tensor> given, int64_t dim,
                    at::IntArrayRef pieces);

/// The ranges of each tensor.
std::vector<at::Tensor> shardEach(llvm::ArrayRef<at::Tensor> given, int64_t dim, at::IntArrayRef ranges);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_DEVICECOLLECTIVES_H
