//===- Microbatches.h - One request in micro-batches ------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXCHANGE_MICROBATCHES_H
#define CLEAVE_RUNTIME_EXCHANGE_MICROBATCHES_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/Tensor.h>
#include <cstdint>
#include <optional>
#include <vector>

namespace cleave::runtime {

/// How a request's inputs are split into micro-batches, those of all data ranks, and their outputs joined. A
/// batch of fewer samples than the plan has micro-batches gives one micro-batch a sample.
class Microbatches {
public:
  /// \param wanted  micro-batches of the plan (plan::microbatchesOfAll).
  /// \param sizes   of the signature's symbols; `signature` must outlive the result.
  Microbatches(const plan::Signature &signature, uint32_t wanted, std::vector<int64_t> sizes);

  uint32_t count() const { return symbolSizes.size(); }
  /// Sizes of the symbols within one micro-batch.
  llvm::ArrayRef<int64_t> symbols(uint32_t microbatch) const { return symbolSizes[microbatch]; }
  /// What a micro-batch sees of `whole`, leaf `leaf` of the inputs: contiguous, and `whole` itself where it
  /// has no batch.
  at::Tensor inputOf(uint32_t microbatch, size_t leaf, const at::Tensor &whole) const;
  /// Whether leaf `leaf` of the outputs is put together of what micro-batches give; else all give the same.
  bool joins(size_t leaf) const { return batchOf(leaf).has_value(); }
  /// For a leaf that is joined, room for all on `place`, where micro-batch `microbatch` gives `output`;
  /// pinned where a GPU is to write into main memory.
  at::Tensor allocateOutput(uint32_t microbatch, size_t leaf, const at::Tensor &output, c10::Device place) const;
  /// Puts `output`, what a micro-batch gives for such a leaf, in its place in `whole`; from a GPU it may
  /// still be under way there.
  void addOutputOf(uint32_t microbatch, size_t leaf, const at::Tensor &output, const at::Tensor &whole) const;
  /// What that place of `whole` holds.
  at::Tensor outputOf(uint32_t microbatch, size_t leaf, const at::Tensor &whole) const;

private:
  /// The dimension along which an output is joined.
  std::optional<uint32_t> batchOf(size_t leaf) const;

  const plan::Signature &signature;
  /// Of the request; 0 where it is not split.
  int64_t samples = 0;
  /// By micro-batch.
  std::vector<std::vector<int64_t>> symbolSizes;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_MICROBATCHES_H
