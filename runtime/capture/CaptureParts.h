//===- CaptureParts.h - Parts of captured values ----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_CAPTURE_CAPTUREPARTS_H
#define CLEAVE_RUNTIME_CAPTURE_CAPTUREPARTS_H

#include "codegen/plan/Plan.h"
#include "runtime/comm/Communicator.h"
#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/Tensor.h>
#include <cstdint>

namespace cleave::runtime {

/// True if tensor-parallel ranks hold different parts of the value, or terms of it.
bool isSplit(const plan::CapturePoint &point);

/// What a tensor-parallel rank holds of the whole value: its ranges; or, of a sum, everything on rank 0 and
/// zeros elsewhere. Throws where the ranges are not in the tensor.
at::Tensor partOf(const plan::CapturePoint &point, const plan::CaptureSlot &slot, const at::Tensor &whole);

/// The whole value of what the tensor-parallel ranks hold, by rank. Sums are as those of all_reduce
/// (Communicator).
at::Tensor wholeOf(const plan::CapturePoint &point, llvm::ArrayRef<at::Tensor> parts);

/// The same, made by collectives of all ranks of the group.
at::Tensor gatherWhole(const plan::CapturePoint &point, const at::Tensor &part, Communicator &group);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CAPTURE_CAPTUREPARTS_H
