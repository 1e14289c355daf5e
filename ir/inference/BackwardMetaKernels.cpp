//===- BackwardMetaKernels.cpp - Kernels of gradients for the meta device -===//
//
// Operators that autograd calls on large tensors. Others without a meta kernel are tried on zeros.
//
//===----------------------------------------------------------------------===//
#include "ir/inference/MetaKernels.h"
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/TensorIterator.h>
#include <torch/library.h>

namespace cleave {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Mask3 = std::array<bool, 3>;
using ThreeTensors = std::tuple<Tensor, Tensor, Tensor>;

static Tensor likeContiguous(const Tensor &tensor) {
  return at::empty_like(tensor, at::MemoryFormat::Contiguous);
}
static Tensor likeOptional(const OptionalTensor &tensor) {
  return tensor && tensor->defined() ? likeContiguous(*tensor) : Tensor();
}

/// The kernels work on [batch, rows, heads, width] and give the transposed result.
static std::tuple<Tensor, Tensor> flashAttention(const Tensor &query, const Tensor &, const Tensor &, double,
                                                 bool, const OptionalTensor &, std::optional<double>) {
  Tensor sums = at::empty({query.size(0), query.size(2), query.size(1)},
                          query.options().dtype(at::toOpMathType(query.scalar_type())));
  return {at::empty_like(query), sums.transpose(1, 2)};
}
static ThreeTensors flashAttentionBackward(const Tensor &, const Tensor &query, const Tensor &key,
                                           const Tensor &value, const Tensor &, const Tensor &, double, bool,
                                           const OptionalTensor &, std::optional<double>) {
  auto transposed = [](const Tensor &tensor) {
    return at::empty(tensor.transpose(1, 2).sizes(), tensor.options()).transpose(1, 2);
  };
  return {transposed(query), transposed(key), transposed(value)};
}

static ThreeTensors convolutionBackward(const Tensor &gradient, const Tensor &input, const Tensor &weight,
                                        c10::SymIntArrayRef, c10::SymIntArrayRef, c10::SymIntArrayRef, bool,
                                        c10::SymIntArrayRef, c10::SymInt, Mask3 mask) {
  // oneDNN gives results in the layout of its operands.
  const bool isChannelsLast =
      input.dim() == 4 && (input.suggest_memory_format() == at::MemoryFormat::ChannelsLast ||
                           weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast);
  const auto format = isChannelsLast ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  return {mask[0] ? at::empty_like(input, format) : Tensor(),
          mask[1] ? at::empty_like(weight, format) : Tensor(),
          mask[2] ? at::empty({gradient.size(1)}, gradient.options()) : Tensor()};
}

static ThreeTensors layerNormBackward(const Tensor &, const Tensor &input, c10::SymIntArrayRef,
                                      const Tensor &, const Tensor &, const OptionalTensor &weight,
                                      const OptionalTensor &bias, Mask3 mask) {
  return {mask[0] ? likeContiguous(input) : Tensor(), mask[1] ? likeOptional(weight) : Tensor(),
          mask[2] ? likeOptional(bias) : Tensor()};
}

static ThreeTensors batchNormBackward(const Tensor &, const Tensor &input, const OptionalTensor &weight,
                                      const OptionalTensor &, const OptionalTensor &, const OptionalTensor &,
                                      const OptionalTensor &, bool, double, Mask3 mask) {
  auto ofChannels = [&] {
    return at::empty({input.size(1)}, weight && weight->defined() ? weight->options() : input.options());
  };
  return {mask[0] ? at::empty_like(input, input.suggest_memory_format()) : Tensor(),
          mask[1] ? ofChannels() : Tensor(), mask[2] ? ofChannels() : Tensor()};
}

static Tensor embeddingBackward(const Tensor &gradient, const Tensor &, c10::SymInt rows, c10::SymInt, bool) {
  return at::empty({rows.expect_int(), gradient.size(-1)}, gradient.options());
}

static Tensor meanSquareBackward(const Tensor &, const Tensor &input, const Tensor &, int64_t) {
  return likeContiguous(input);
}

static std::tuple<Tensor, Tensor> dropout(const Tensor &input, double, std::optional<bool>) {
  return {at::empty_like(input), at::empty_like(input, input.options().dtype(at::kBool))};
}

void registerBackward(torch::Library &aten) {
  aten.impl("_scaled_dot_product_flash_attention_for_cpu", flashAttention);
  aten.impl("_scaled_dot_product_flash_attention_for_cpu_backward", flashAttentionBackward);
  aten.impl("convolution_backward_overrideable", convolutionBackward);
  aten.impl("native_layer_norm_backward", layerNormBackward);
  aten.impl("native_batch_norm_backward", batchNormBackward);
  aten.impl("embedding_dense_backward", embeddingBackward);
  aten.impl("mse_loss_backward", meanSquareBackward);
  aten.impl("native_dropout", dropout);
}

} // namespace cleave
