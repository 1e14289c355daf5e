//===- Microbatches.h - The parts of one request ----------------*- C++ -*-===//
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

  uint32_t count() const { return parts; }
  /// Sizes of the symbols within one micro-batch.
  llvm::ArrayRef<int64_t> symbols(uint32_t index) const { return sizes[index]; }
  /// What micro-batch `index` sees of `whole`, leaf `leaf` of the inputs: contiguous, and `whole` itself where it has no
  /// batch.
  at::Tensor part(size_t leaf, const at::Tensor &whole, uint32_t index) const;
  /// Adds what micro-batch `index` gives for leaf `leaf` of the outputs to `whole`, which the first one given makes.
  void join(size_t leaf, uint32_t index, const at::Tensor &part, at::Tensor &whole) const;

private:
  const plan::Signature &signature;
  uint32_t parts = 1;
  int64_t batch = 0;
  std::vector<std::vector<int64_t>> sizes;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_MICROBATCHES_H
