//===- Microbatches.h - One request in micro-batches ------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_MICROBATCHES_H
#define CLEAVE_RUNTIME_MICROBATCHES_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/Tensor.h>
#include <cstdint>
#include <vector>

namespace cleave::runtime {

/// How a request's inputs are split into micro-batches and their outputs joined. A batch of fewer samples than the plan
/// has micro-batches gives one micro-batch a sample.
class Microbatches {
public:
  /// \param wanted  micro-batches of the plan.
  /// \param sizes   of the signature's symbols; `signature` must outlive the result.
  Microbatches(const plan::Signature &signature, uint32_t wanted, std::vector<int64_t> sizes);

  uint32_t count() const { return symbolSizes.size(); }
  /// Sizes of the symbols within one micro-batch.
  llvm::ArrayRef<int64_t> symbols(uint32_t microbatch) const { return symbolSizes[microbatch]; }
  /// What a micro-batch sees of `whole`, leaf `leaf` of the inputs: contiguous, and `whole` itself where it
  /// has no batch.
  at::Tensor inputOf(uint32_t microbatch, size_t leaf, const at::Tensor &whole) const;
  /// Adds `output`, what a micro-batch gives for leaf `leaf` of the outputs, to `whole`, which the first one
  /// given makes.
  void addOutputOf(uint32_t microbatch, size_t leaf, const at::Tensor &output, at::Tensor &whole) const;

private:
  const plan::Signature &signature;
  /// Of the request; 0 where it is not split.
  int64_t samples = 0;
  /// By micro-batch.
  std::vector<std::vector<int64_t>> symbolSizes;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_MICROBATCHES_H
