//===- GpuKernels.cpp - GPU kernels of operators for CPUs -----------------===//
#include "runtime/operators/GpuKernels.h"
#include <ATen/ATen.h>
#include <array>
#include <cmath>
#include <limits>

namespace cleave::runtime {

using at::Tensor;
using torch::jit::Stack;
using OptionalTensor = std::optional<Tensor>;

//===- Attention ----------------------------------------------------------===//

namespace {
/// Operands with key and value heads repeated to the number of query heads.
struct AttentionInputs {
  AttentionInputs(const Tensor &query, const Tensor &key, const Tensor &value, const OptionalTensor &mask,
                  bool isCausal, std::optional<double> scale)
      : query(query), key(repeated(key, query.size(1))), value(repeated(value, query.size(1))), mask(mask),
        isCausal(isCausal), scale(scale.value_or(1 / std::sqrt(double(query.size(3))))),
        groups(query.size(1) / key.size(1)) {}

  static Tensor repeated(const Tensor &tensor, int64_t heads) {
    return tensor.size(1) == heads ? tensor : tensor.repeat_interleave(heads / tensor.size(1), 1);
  }
  /// The gradient of keys or values, summed over the queries that a head serves.
  Tensor summed(const Tensor &gradient) const {
    return groups == 1 ? gradient : gradient.unflatten(1, {gradient.size(1) / groups, groups}).sum(2);
  }
  int64_t rows() const { return query.size(2); }
  int64_t columns() const { return key.size(2); }

  Tensor query, key, value;
  OptionalTensor mask;
  bool isCausal;
  double scale;
  int64_t groups;
};
} // namespace

/// In float32 if they are narrower.
static Tensor upcastToFloat(const Tensor &tensor) {
  return tensor.itemsize() < 4 ? tensor.to(at::kFloat) : tensor;
}

static Tensor scoresOf(const AttentionInputs &heads) {
  Tensor scores =
      at::matmul(upcastToFloat(heads.query) * heads.scale, upcastToFloat(heads.key).transpose(2, 3));
  if (heads.mask)
    scores = scores + upcastToFloat(*heads.mask);
  if (heads.isCausal)
    scores = scores.masked_fill(
        at::ones({heads.rows(), heads.columns()}, scores.options().dtype(at::kBool)).tril().logical_not(),
        -std::numeric_limits<double>::infinity());
  return scores;
}

/// Rows whose keys are all masked get probabilities 0.
static Tensor probabilitiesOf(const AttentionInputs &heads, const Tensor &logSumExp) {
  const Tensor ofRows = logSumExp.unsqueeze(-1);
  return (scoresOf(heads) - ofRows).exp().masked_fill(ofRows.isinf(), 0);
}

/// libtorch's kernel for GPUs reads rows of 16 bytes.
static bool canUseEfficientAttention(const AttentionInputs &heads) {
  auto isAligned = [](const Tensor &tensor) { return tensor.size(3) * tensor.itemsize() % 16 == 0; };
  return heads.query.is_cuda() && heads.query.scalar_type() != at::kDouble && isAligned(heads.query) &&
         isAligned(heads.value) && heads.rows() > 0 && heads.columns() > 0;
}

/// The mask for each row and column, in memory whose rows begin at multiples of 16 elements.
static OptionalTensor biasOf(const AttentionInputs &heads) {
  if (!heads.mask)
    return std::nullopt;
  Tensor bias = heads.mask->to(heads.query.scalar_type());
  if (bias.size(-1) != heads.columns()) {
    std::vector<int64_t> sizes = bias.sizes().vec();
    sizes.back() = heads.columns();
    bias = bias.expand(sizes).contiguous();
  }
  if (const int64_t rest = heads.columns() % 16)
    bias = at::constant_pad_nd(bias, {0, 16 - rest}).slice(-1, 0, heads.columns());
  return bias.expand({heads.query.size(0), heads.query.size(1), heads.rows(), heads.columns()});
}

/// `tensor` in the layout of `like`, which operators behind it may rely on.
static Tensor inLayoutOf(const Tensor &like, const Tensor &tensor) {
  Tensor wanted = at::empty_like(like, tensor.options());
  return wanted.strides() == tensor.strides() ? tensor : wanted.copy_(tensor);
}

/// In the layout [batch, rows, heads, width].
static Tensor inRowLayout(const Tensor &tensor, at::ScalarType dtype) {
  return tensor.to(dtype).transpose(1, 2).contiguous().transpose(1, 2);
}

std::tuple<Tensor, Tensor> scaledDotProductAttention(const Tensor &query, const Tensor &key,
                                                     const Tensor &value, double dropout, bool isCausal,
                                                     const OptionalTensor &mask,
                                                     std::optional<double> scale) {
  TORCH_CHECK(dropout == 0, "found a dropout of ", dropout, ", expected 0");
  const AttentionInputs heads(query, key, value, mask, isCausal, scale);
  if (canUseEfficientAttention(heads)) {
    auto [output, logSumExp, seed, offset] = at::_scaled_dot_product_efficient_attention(
        query, heads.key, heads.value, biasOf(heads), /*compute_log_sumexp=*/true, /*dropout_p=*/0, isCausal,
        heads.scale);
    return {inLayoutOf(query, output), logSumExp.narrow(2, 0, heads.rows())};
  }
  const Tensor logSumExp = at::logsumexp(scoresOf(heads), -1);
  const Tensor output = at::matmul(probabilitiesOf(heads, logSumExp), upcastToFloat(heads.value));
  return {inLayoutOf(query, output.to(query.scalar_type())), logSumExp};
}

std::tuple<Tensor, Tensor, Tensor>
scaledDotProductAttentionBackward(const Tensor &gradient, const Tensor &query, const Tensor &key,
                                  const Tensor &value, const Tensor &output, const Tensor &logSumExp,
                                  double dropout, bool isCausal, const OptionalTensor &mask,
                                  std::optional<double> scale) {
  TORCH_CHECK(dropout == 0, "found a dropout of ", dropout, ", expected 0");
  const AttentionInputs heads(query, key, value, mask, isCausal, scale);
  const at::ScalarType dtype = query.scalar_type();
  if (canUseEfficientAttention(heads)) {
    // The kernel reads rows up to a multiple of 32.
    const int64_t padding = (32 - heads.rows() % 32) % 32;
    const Tensor padded =
        at::constant_pad_nd(logSumExp, {0, padding}, std::numeric_limits<double>::infinity()).contiguous();
    const Tensor none = at::empty({}, at::TensorOptions(at::kLong).device(query.device()));
    auto [gradQuery, gradKey, gradValue, gradBias] = at::_scaled_dot_product_efficient_attention_backward(
        gradient, query, heads.key, heads.value, biasOf(heads).value_or(Tensor()), output, padded, none,
        none,
        /*dropout_p=*/0, std::array<bool, 4>{true, true, true, false}, isCausal, heads.scale);
    return {inRowLayout(gradQuery, dtype), inRowLayout(heads.summed(gradKey), dtype),
            inRowLayout(heads.summed(gradValue), dtype)};
  }
  const Tensor probabilities = probabilitiesOf(heads, logSumExp), given = upcastToFloat(gradient);
  const Tensor gradProbabilities = at::matmul(given, upcastToFloat(heads.value).transpose(2, 3));
  const Tensor gradScores = probabilities *
                            (gradProbabilities - (given * upcastToFloat(output)).sum(-1, /*keepdim=*/true)) *
                            heads.scale;
  return {inRowLayout(at::matmul(gradScores, upcastToFloat(heads.key)), dtype),
          inRowLayout(heads.summed(at::matmul(gradScores.transpose(2, 3), upcastToFloat(query))), dtype),
          inRowLayout(heads.summed(at::matmul(probabilities.transpose(2, 3), given)), dtype)};
}

//===- Operators ----------------------------------------------------------===//

static OptionalTensor optionalTensor(const c10::IValue &value) {
  return value.isTensor() && value.toTensor().defined() ? OptionalTensor(value.toTensor()) : std::nullopt;
}

torch::jit::Operation gpuKernel(llvm::StringRef name, torch::jit::Operation operation) {
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu")
    return [](Stack &stack) {
      auto given = torch::jit::pop(stack, 7);
      auto [output, logSumExp] = scaledDotProductAttention(
          given[0].toTensor(), given[1].toTensor(), given[2].toTensor(), given[3].toDouble(),
          given[4].toBool(), optionalTensor(given[5]), given[6].toOptional<double>());
      torch::jit::push(stack, std::move(output), std::move(logSumExp));
    };
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu_backward")
    return [](Stack &stack) {
      auto given = torch::jit::pop(stack, 10);
      auto [query, key, value] = scaledDotProductAttentionBackward(
          given[0].toTensor(), given[1].toTensor(), given[2].toTensor(), given[3].toTensor(),
          given[4].toTensor(), given[5].toTensor(), given[6].toDouble(), given[7].toBool(),
          optionalTensor(given[8]), given[9].toOptional<double>());
      torch::jit::push(stack, std::move(query), std::move(key), std::move(value));
    };
  return operation;
}

} // namespace cleave::runtime
