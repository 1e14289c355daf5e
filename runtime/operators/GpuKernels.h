//===- GpuKernels.h - GPU kernels of operators for CPUs ---------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_OPERATORS_GPUKERNELS_H
#define CLEAVE_RUNTIME_OPERATORS_GPUKERNELS_H

#include "llvm/ADT/StringRef.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <optional>
#include <tuple>

namespace cleave::runtime {

/// The kernel for GPUs of an operator (`aten::…`) that libtorch implements only for CPUs; `operation`
/// unchanged if `name` needs none. Plans with gradients contain such operators, because derivatives are
/// recorded on the CPU.
torch::jit::Operation gpuKernel(llvm::StringRef name, torch::jit::Operation operation);

/// `aten::_scaled_dot_product_flash_attention_for_cpu`, on any device. Query [batch, heads, query length,
/// head width]; key and value [batch, key heads, key length, head width], where consecutive query heads share
/// a key head (grouped-query attention). `mask`: floating-point, broadcastable to [batch, heads, query
/// length, key length], added to the scores. A causal mask is aligned to the upper left.
///
/// Returns the output, with the dtype and strides of the query, and logsumexp [batch, heads, query length] in
/// float32 (double for double). Throws c10::Error if `dropout` is not 0.
std::tuple<at::Tensor, at::Tensor> scaledDotProductAttention(const at::Tensor &query, const at::Tensor &key,
                                                             const at::Tensor &value, double dropout,
                                                             bool isCausal,
                                                             const std::optional<at::Tensor> &mask,
                                                             std::optional<double> scale);

/// Gradients with respect to query, key and value, each of the shape of its tensor and strided as [batch,
/// length, heads, head width]. `gradient` is that of the output. The mask gets no gradient.
std::tuple<at::Tensor, at::Tensor, at::Tensor>
scaledDotProductAttentionBackward(const at::Tensor &gradient, const at::Tensor &query, const at::Tensor &key,
                                  const at::Tensor &value, const at::Tensor &output,
                                  const at::Tensor &logSumExp, double dropout, bool isCausal,
                                  const std::optional<at::Tensor> &mask, std::optional<double> scale);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORS_GPUKERNELS_H
