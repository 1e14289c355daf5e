//===- Microbatches.h - Splits a request into micro-batches -----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_EXCHANGE_MICROBATCHES_H
#define CLEAVE_RUNTIME_EXCHANGE_MICROBATCHES_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/Tensor.h>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace cleave::runtime {

/// Splits the inputs of a request into micro-batches, of all data-parallel ranks, and joins their outputs. A
/// batch with fewer samples than the plan has micro-batches is split into single samples.
class Microbatches {
public:
  /// \param wanted  micro-batches of the plan (plan::microbatchesOfAll).
  /// \param sizes   by symbol of the signature. `signature` must outlive all calls but `merged` and `count`.
  Microbatches(const plan::Signature &signature, uint32_t wanted, std::vector<int64_t> sizes);

  uint32_t count() const { return symbolSizes.size(); }
  /// Samples of the request; 0 if the signature has no batch.
  int64_t batch() const { return samples; }
  /// Samples [first, second) of a micro-batch; none if the signature has no batch.
  std::pair<int64_t, int64_t> samplesOf(uint32_t microbatch) const;
  /// By symbol: its size within one micro-batch.
  llvm::ArrayRef<int64_t> symbols(uint32_t microbatch) const { return symbolSizes[microbatch]; }
  /// By symbol: its size in the whole request.
  llvm::ArrayRef<int64_t> wholeSymbols() const { return sizes; }
  /// The part of `whole`, leaf `leaf` of the inputs, that a micro-batch reads. Contiguous; `whole` itself if
  /// it has no batch dimension.
  at::Tensor inputOf(uint32_t microbatch, size_t leaf, const at::Tensor &whole) const {
    return partOf(*signature.inputs[leaf]->type, microbatch, whole);
  }
  /// The same for a value of another type of the signature.
  at::Tensor partOf(const plan::TensorType &type, uint32_t microbatch, const at::Tensor &whole) const;
  /// True if leaf `leaf` of the outputs is made of the parts that micro-batches give: rows of the batch, or
  /// terms of a sum. Otherwise all micro-batches make the same value.
  bool joins(size_t leaf) const { return batchDimOf(leaf).has_value() || sums(leaf); }
  /// For a joined leaf: allocates the whole output on the device `device`, where micro-batch `microbatch`
  /// makes `output`. CPU memory that a GPU writes to is pinned.
  at::Tensor allocateOutput(uint32_t microbatch, size_t leaf, const at::Tensor &output,
                            c10::Device device) const;
  /// Copies `output`, what a micro-batch makes for a joined leaf, into its part of `whole`. The copy from a
  /// GPU is asynchronous.
  void addOutputOf(uint32_t microbatch, size_t leaf, const at::Tensor &output, const at::Tensor &whole) const;
  /// The part of `whole` that belongs to a micro-batch.
  at::Tensor outputOf(uint32_t microbatch, size_t leaf, const at::Tensor &whole) const;
  /// The output, when all parts are in `whole`: the sum of its terms, which are added in the order of the
  /// micro-batches, or `whole` itself.
  at::Tensor merged(size_t leaf, const at::Tensor &whole) const;

private:
  /// The dimension along which an output is joined.
  std::optional<uint32_t> batchDimOf(size_t leaf) const;
  /// True if an output is a sum. Its terms are stacked along a first dimension until all are there.
  bool sums(size_t leaf) const { return count() > 1 && isSum[leaf]; }

  const plan::Signature &signature;
  /// By symbol.
  const std::vector<int64_t> sizes;
  const int64_t samples;
  /// By output: whether it is a sum over the micro-batches.
  std::vector<bool> isSum;
  /// By micro-batch, then by symbol.
  std::vector<std::vector<int64_t>> symbolSizes;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_MICROBATCHES_H
