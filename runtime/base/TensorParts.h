//===- TensorParts.h - Parts of tensors on ranks ----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_TENSORPARTS_H
#define CLEAVE_RUNTIME_BASE_TENSORPARTS_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/Tensor.h>

namespace cleave::runtime {

/// What a rank holds of each dimension that is split; none: everything.
using PartRanges = llvm::ArrayRef<std::unique_ptr<plan::DimRanges>>;

/// A new tensor with the part of `whole`; `whole` itself if `ranges` is empty. Throws c10::Error if ranges
/// are outside of the tensor.
at::Tensor partOf(const at::Tensor &whole, PartRanges ranges);

/// Writes a rank's part into `whole`. Throws c10::Error if ranges are outside of the tensors.
void writePart(const at::Tensor &whole, PartRanges ranges, const at::Tensor &part);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_TENSORPARTS_H
