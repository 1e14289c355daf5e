//===- Microbatches.cpp - One request in micro-batches --------------------===//
#include "runtime/Microbatches.h"
#include "codegen/plan/Batch.h"
#include <ATen/Functions.h>
#include <algorithm>

namespace cleave::runtime {

Microbatches::Microbatches(const plan::Signature &signature, uint32_t wanted, std::vector<int64_t> sizes)
    : signature(signature) {
  uint32_t microbatches = 1;
  if (wanted > 1) {
    samples = sizes[signature.batch];
    microbatches = uint32_t(std::min<int64_t>(wanted, samples));
  }
  symbolSizes.assign(microbatches, std::move(sizes));
  for (uint32_t microbatch = 0; microbatches > 1 && microbatch < microbatches; ++microbatch) {
    auto [begin, end] = plan::samplesOf(samples, microbatches, microbatch);
    symbolSizes[microbatch][signature.batch] = end - begin;
  }
}

at::Tensor Microbatches::inputOf(uint32_t microbatch, size_t leaf, const at::Tensor &whole) const {
  if (count() == 1)
    return whole;
  auto dim = plan::batchDimension(*signature.inputs[leaf]->type, signature.batch);
  if (!dim)
    return whole;
  auto [begin, end] = plan::samplesOf(samples, count(), microbatch);
  const int64_t rowsPerSample = whole.size(*dim) / samples;
  return whole.narrow(*dim, begin * rowsPerSample, (end - begin) * rowsPerSample).contiguous();
}

void Microbatches::addOutputOf(uint32_t microbatch, size_t leaf, const at::Tensor &output,
                               at::Tensor &whole) const {
  auto dim =
      count() == 1 ? std::nullopt : plan::batchDimension(*signature.outputs[leaf]->type, signature.batch);
  if (!dim) {
    // Without a batch every micro-batch gives the same.
    if (microbatch == 0)
      whole = output;
    return;
  }
  auto [begin, end] = plan::samplesOf(samples, count(), microbatch);
  const int64_t rows = output.size(*dim), rowsPerSample = rows / (end - begin);
  TORCH_CHECK(rows == rowsPerSample * (end - begin) &&
                  (!whole.defined() || whole.size(*dim) == samples * rowsPerSample),
              "output ", leaf, " has ", rows, " rows for ", end - begin,
              " samples, which is not what the plan says");
  if (!whole.defined()) {
    std::vector<int64_t> shape = output.sizes().vec();
    shape[*dim] = samples * rowsPerSample;
    whole = at::empty(shape, output.options());
  }
  whole.narrow(*dim, begin * rowsPerSample, rows).copy_(output);
}

} // namespace cleave::runtime
