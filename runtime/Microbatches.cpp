//===- Microbatches.cpp - The parts of one request ------------------------===//
#include "runtime/Microbatches.h"
#include "codegen/plan/Batch.h"
#include <ATen/Functions.h>
#include <algorithm>

namespace cleave::runtime {

Microbatches::Microbatches(const plan::Signature &signature, uint32_t wanted, std::vector<int64_t> whole)
    : signature(signature) {
  if (wanted > 1) {
    batch = whole[signature.batch];
    parts = uint32_t(std::min<int64_t>(wanted, batch));
  }
  sizes.assign(parts, std::move(whole));
  for (uint32_t index = 0; parts > 1 && index < parts; ++index) {
    auto [begin, end] = plan::samplesOf(batch, parts, index);
    sizes[index][signature.batch] = end - begin;
  }
}

at::Tensor Microbatches::part(size_t leaf, const at::Tensor &whole, uint32_t index) const {
  if (parts == 1)
    return whole;
  auto dim = plan::batchDimension(*signature.inputs[leaf]->type, signature.batch);
  if (!dim)
    return whole;
  auto [begin, end] = plan::samplesOf(batch, parts, index);
  const int64_t perSample = whole.size(*dim) / batch;
  return whole.narrow(*dim, begin * perSample, (end - begin) * perSample).contiguous();
}

void Microbatches::join(size_t leaf, uint32_t index, const at::Tensor &part, at::Tensor &whole) const {
  auto dim = parts == 1 ? std::nullopt : plan::batchDimension(*signature.outputs[leaf]->type, signature.batch);
  if (!dim) {
    // Without a batch every micro-batch gives the same.
    if (index == 0)
      whole = part;
    return;
  }
  auto [begin, end] = plan::samplesOf(batch, parts, index);
  const int64_t perSample = part.size(*dim) / (end - begin);
  TORCH_CHECK(part.size(*dim) == perSample * (end - begin) && (!whole.defined() || whole.size(*dim) == batch * perSample),
              "output ", leaf, " has ", part.size(*dim), " rows for ", end - begin,
              " samples, which is not what the plan says");
  if (!whole.defined()) {
    std::vector<int64_t> shape = part.sizes().vec();
    shape[*dim] = batch * perSample;
    whole = at::empty(shape, part.options());
  }
  whole.narrow(*dim, begin * perSample, part.size(*dim)).copy_(part);
}

} // namespace cleave::runtime
