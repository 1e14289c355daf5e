//===- AttentionChecks.cpp - What fused attention needs of arguments ------===//
#include "runtime/base/Values.h"
#include "runtime/operators/ArgumentCheckParts.h"
#include "llvm/ADT/StringMap.h"
#include <ATen/ops/empty_like.h>

namespace cleave::runtime {

using c10::IValue;
using llvm::ArrayRef;

//===- Fused layers of nn.TransformerEncoder ------------------------------===//

/// Throws unless `value` is a contiguous tensor of these sizes, with the dtype of `like`.
static void checkParameter(const IValue &value, at::IntArrayRef sizes, const at::Tensor &like) {
  const at::Tensor &parameter = tensorOf(value);
  TORCH_CHECK(parameter.sizes() == sizes && parameter.is_contiguous() &&
                  parameter.scalar_type() == like.scalar_type(),
              "found a parameter ", parameter.sizes(), " of ", parameter.scalar_type(), ", expected ", sizes,
              " of ", like.scalar_type(), " without gaps");
}

/// A mask of self-attention: of queries and keys, of a batch's padding, or of each head. The kernel makes
/// booleans of numbers.
static void checkAttentionMask(const IValue &mask, const IValue &type, const at::Tensor &input,
                               int64_t heads) {
  if (!mask.isTensor() || !mask.toTensor().defined())
    return;
  const int64_t batch = input.size(0), length = input.size(1);
  const std::vector<int64_t> sizes[] = {{length, length}, {batch, length}, {batch, heads, length, length}};
  TORCH_CHECK(type.isInt() && type.toInt() >= 0 && type.toInt() <= 2,
              "found a mask without its type, expected 0, 1 or 2");
  const at::IntArrayRef expected = sizes[type.toInt()];
  TORCH_CHECK(mask.toTensor().sizes() == expected, "found a mask ", mask.toTensor().sizes(), ", expected ",
              expected);
}

/// Fused self-attention over `input`: embed_dim, num_heads, and weights and biases of the projections.
static void checkProjections(const at::Tensor &input, ArrayRef<IValue> arguments) {
  const int64_t width = arguments[0].toInt(), heads = arguments[1].toInt();
  TORCH_CHECK(input.dim() == 3 && input.numel() > 0 && input.size(2) == width && heads > 0 &&
                  width % heads == 0 && c10::isFloatingType(input.scalar_type()),
              "found an input ", input.sizes(), " for ", heads, " heads of together ", width);
  checkParameter(arguments[2], {3 * width, width}, input);
  checkParameter(arguments[3], {3 * width}, input);
  checkParameter(arguments[4], {width, width}, input);
  checkParameter(arguments[5], {width}, input);
}

/// _native_multi_head_attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight,
/// proj_bias, mask, need_weights, average_attn_weights, mask_type).
static void checkFusedAttention(ArrayRef<IValue> arguments) {
  const at::Tensor &query = tensorOf(arguments[0]);
  checkProjections(query, arguments.slice(3, 6));
  for (const IValue &operand : arguments.slice(1, 2))
    TORCH_CHECK(tensorOf(operand).sizes() == query.sizes() &&
                    tensorOf(operand).scalar_type() == query.scalar_type(),
                "found keys or values ", tensorOf(operand).sizes(), " of ", tensorOf(operand).scalar_type(),
                " for queries ", query.sizes(), " of ", query.scalar_type());
  checkAttentionMask(arguments[9], arguments[12], query, arguments[4].toInt());
}

/// _transformer_encoder_layer_fwd(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias,
/// use_gelu, norm_first, eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1,
/// ffn_bias_1, ffn_weight_2, ffn_bias_2, mask, mask_type).
static void checkEncoderLayer(ArrayRef<IValue> arguments) {
  const at::Tensor &input = tensorOf(arguments[0]);
  checkProjections(input, arguments.slice(1, 6));
  const int64_t width = arguments[1].toInt();
  for (const IValue &norm : arguments.slice(10, 4))
    checkParameter(norm, {width}, input);
  const int64_t hidden = tensorOf(arguments[15]).numel();
  checkParameter(arguments[14], {hidden, width}, input);
  checkParameter(arguments[15], {hidden}, input);
  checkParameter(arguments[16], {width, hidden}, input);
  checkParameter(arguments[17], {width}, input);
  checkAttentionMask(arguments[18], arguments[19], input, arguments[2].toInt());
}

//===- Fused products of heads --------------------------------------------===//

/// A query, key and value of [batch, heads, positions, width], and a mask.
static void checkHeads(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
                       const IValue &maskOrNone) {
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && query.numel() > 0 && key.numel() > 0 &&
                  query.size(0) == key.size(0) && query.size(1) % key.size(1) == 0 &&
                  query.size(3) == key.size(3),
              "found a query ", query.sizes(), " and keys ", key.sizes());
  checkSizes(value, key.sizes(), "values");
  for (const at::Tensor *tensor : {&query, &key, &value}) {
    TORCH_CHECK(tensor->stride(3) == 1, "found a head with gaps");
    checkDType(*tensor, query.scalar_type());
  }
  // The output has the query's order of dimensions, and an element for each, also where the query repeats some.
  TORCH_CHECK(hasNoInternalOverlap(query) ||
                  at::empty_like(query, query.options().device(at::kMeta)).stride(3) == 1,
              "found a query whose output would have heads with gaps");
  const at::Tensor *mask = optionalTensorOf(maskOrNone);
  if (!mask)
    return;
  const int64_t expected[] = {query.size(0), query.size(1), query.size(2), key.size(2)};
  bool fits = (mask->dim() == 2 || mask->dim() == 4) && mask->stride(-1) == 1;
  for (int64_t i = 1; fits && i <= mask->dim(); ++i)
    fits = mask->size(-i) == expected[4 - i] || (i > 1 && mask->size(-i) == 1);
  TORCH_CHECK(fits, "found a mask ", mask->sizes(), " of a query ", query.sizes(), " and keys ", key.sizes());
}

/// _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, attn_mask, scale).
static void checkFlash(ArrayRef<IValue> arguments) {
  checkHeads(tensorOf(arguments[0]), tensorOf(arguments[1]), tensorOf(arguments[2]), arguments[5]);
}

/// Its gradient (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale).
static void checkFlashGradient(ArrayRef<IValue> arguments) {
  const at::Tensor &query = tensorOf(arguments[1]), &sums = tensorOf(arguments[5]);
  checkHeads(query, tensorOf(arguments[2]), tensorOf(arguments[3]), arguments[8]);
  for (size_t result : {size_t(0), size_t(4)}) {
    checkSizes(tensorOf(arguments[result]), query.sizes(), "an output or its gradient");
    checkDType(tensorOf(arguments[result]), query.scalar_type());
    TORCH_CHECK(tensorOf(arguments[result]).stride(3) == 1, "found a head with gaps");
  }
  checkSizes(sums, query.sizes().slice(0, 3), "sums");
  checkDType(sums, query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

ArgumentCheck attentionCheckOf(llvm::StringRef name) {
  static const llvm::StringMap<ArgumentCheck> checks = {
      {"aten::_native_multi_head_attention", checkFusedAttention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", checkFlash},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", checkFlashGradient},
      {"aten::_transformer_encoder_layer_fwd", checkEncoderLayer},
  };
  return checks.lookup(name);
}

} // namespace cleave::runtime
