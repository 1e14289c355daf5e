//===- GpuKernels.h - GPU kernels of operators for CPUs ---------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_OPERATORS_GPUKERNELS_H
#define CLEAVE_RUNTIME_OPERATORS_GPUKERNELS_H

#include "llvm/ADT/StringRef.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <optional>
#include <tuple>

namespace cleave::runtime {

/// A kernel for GPUs that is equivalent to operator `name`, where libtorch has that for CPUs alone;
/// `operation`, the kernel of the operator, itself if there is none. A plan that gives gradients calls such
/// operators, since they are what autograd calls on a CPU, and runs on GPUs by these.
torch::jit::Operation gpuKernel(llvm::StringRef name, torch::jit::Operation operation);

/// `aten::_scaled_dot_product_flash_attention_for_cpu`, on any device: the output, in the layout of the
/// query, and for each batch, head and row the logarithm of the sum of exponentials of its scores. Of fewer
/// heads of keys than of queries, each serves as many queries that stand side by side. The mask is added.
/// Throws if `dropout` is not 0.
std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor &query, const at::Tensor &key,
                                             const at::Tensor &value, double dropout, bool isCausal,
                                             const std::optional<at::Tensor> &mask,
                                             std::optional<double> scale);

/// Its gradients of query, key and value, each in the memory layout [batch, rows, heads, width].
std::tuple<at::Tensor, at::Tensor, at::Tensor>
attentionBackward(const at::Tensor &gradient, const at::Tensor &query, const at::Tensor &key,
                  const at::Tensor &value, const at::Tensor &output, const at::Tensor &logSumExp,
                  double dropout, bool isCausal, const std::optional<at::Tensor> &mask,
                  std::optional<double> scale);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORS_GPUKERNELS_H
