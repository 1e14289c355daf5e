//===- Microbatches.cpp - Splits a request into micro-batches -------------===//
#include "runtime/exchange/Microbatches.h"
#include "codegen/plan/Batch.h"
#include <ATen/Functions.h>
#include <algorithm>

namespace cleave::runtime {

Microbatches::Microbatches(const plan::Signature &signature, uint32_t wanted, std::vector<int64_t> given)
    : signature(signature), sizes(std::move(given)),
      samples(signature.batch >= 0 ? sizes[signature.batch] : 0) {
  for (const auto &output : signature.outputs)
    isSum.push_back(output->merge == plan::OutputMerge::Sum);
  const auto microbatches = uint32_t(wanted > 1 ? std::min<int64_t>(wanted, samples) : 1);
  symbolSizes.assign(microbatches, sizes);
  for (uint32_t microbatch = 0; microbatches > 1 && microbatch < microbatches; ++microbatch) {
    auto [begin, end] = samplesOf(microbatch);
    symbolSizes[microbatch][signature.batch] = end - begin;
  }
}

std::pair<int64_t, int64_t> Microbatches::samplesOf(uint32_t microbatch) const {
  return plan::samplesOf(samples, count(), microbatch);
}

at::Tensor Microbatches::partOf(const plan::TensorType &type, uint32_t microbatch,
                                const at::Tensor &whole) const {
  if (count() == 1)
    return whole;
  auto dim = plan::batchDimension(type, signature.batch);
  if (!dim)
    return whole;
  auto [begin, end] = samplesOf(microbatch);
  const int64_t rowsPerSample = whole.size(*dim) / samples;
  return whole.narrow(*dim, begin * rowsPerSample, (end - begin) * rowsPerSample).contiguous();
}

std::optional<uint32_t> Microbatches::batchDimOf(size_t leaf) const {
  return count() == 1 ? std::nullopt : plan::batchDimension(*signature.outputs[leaf]->type, signature.batch);
}

at::Tensor Microbatches::allocateOutput(uint32_t microbatch, size_t leaf, const at::Tensor &output,
                                        c10::Device device) const {
  if (sums(leaf)) {
    std::vector<int64_t> shape = output.sizes().vec();
    shape.insert(shape.begin(), count());
    return at::empty(shape, output.options().device(device));
  }
  auto [begin, end] = samplesOf(microbatch);
  const uint32_t dim = *batchDimOf(leaf);
  // `size` fails if the output has fewer dimensions than the plan says.
  const int64_t rows = output.size(dim) / (end - begin) * samples;
  std::vector<int64_t> shape = output.sizes().vec();
  shape[dim] = rows;
  return at::empty(shape, output.options().device(device).pinned_memory(device.is_cpu() && output.is_cuda()));
}

at::Tensor Microbatches::merged(size_t leaf, const at::Tensor &whole) const {
  // Other processes get the outputs.
  if (!sums(leaf) || !whole.defined())
    return whole;
  at::Tensor sum = whole.select(0, 0).clone();
  for (uint32_t microbatch = 1; microbatch < count(); ++microbatch)
    sum.add_(whole.select(0, microbatch));
  return sum;
}

at::Tensor Microbatches::outputOf(uint32_t microbatch, size_t leaf, const at::Tensor &whole) const {
  if (sums(leaf))
    return whole.select(0, microbatch);
  auto [begin, end] = samplesOf(microbatch);
  const uint32_t dim = *batchDimOf(leaf);
  const int64_t rowsPerSample = whole.size(dim) / samples;
  return whole.narrow(dim, begin * rowsPerSample, (end - begin) * rowsPerSample);
}

void Microbatches::addOutputOf(uint32_t microbatch, size_t leaf, const at::Tensor &output,
                               const at::Tensor &whole) const {
  const at::Tensor part = outputOf(microbatch, leaf, whole);
  if (sums(leaf)) {
    TORCH_CHECK(output.sizes() == part.sizes(), "output ", leaf, " has the sizes ", output.sizes(),
                " in one micro-batch and ", part.sizes(), " in another, expected terms of one sum");
    part.copy_(output);
    return;
  }
  const uint32_t dim = *batchDimOf(leaf);
  auto [begin, end] = samplesOf(microbatch);
  TORCH_CHECK(output.dim() == whole.dim() && output.size(dim) == part.size(dim), "output ", leaf, " has ",
              output.size(dim), " rows for ", end - begin, " samples, which is not what the plan says");
  // With non_blocking, libtorch copies from a GPU to a non-contiguous destination through unpinned memory,
  // and does not wait for it.
  part.copy_(output, /*non_blocking=*/part.is_contiguous());
}

} // namespace cleave::runtime
