//===- ArgumentChecks.cpp - Argument checks of single operators -----------===//
#include "runtime/operators/ArgumentChecks.h"
#include "runtime/operators/ArgumentCheckParts.h"
#include "llvm/ADT/StringMap.h"
#include <ATen/ScalarOps.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/sum.h>
#include <cmath>
#include <limits>

namespace cleave::runtime {

using c10::IValue;
using llvm::ArrayRef;

static void checkSameSizes(const at::Tensor &first, const at::Tensor &second) {
  TORCH_CHECK(first.sizes() == second.sizes(), "found tensors of ", first.sizes(), " and ", second.sizes(),
              ", expected the same sizes");
}

//===- Numbers ------------------------------------------------------------===//

/// `first / second` of integers, which the processor answers with a signal where there is no such number.
static void checkDivision(ArrayRef<IValue> arguments) {
  if (!arguments[0].isInt() || !arguments[1].isInt())
    return;
  TORCH_CHECK(arguments[1].toInt() != 0, "division by zero");
  TORCH_CHECK(arguments[1].toInt() != -1 || arguments[0].toInt() != std::numeric_limits<int64_t>::min(),
              "the quotient of ", arguments[0].toInt(), " and -1 does not fit in 64 bits");
}

/// gcd of integers, which divides one by the other.
static void checkDivisor(ArrayRef<IValue> arguments) {
  const auto least = std::numeric_limits<int64_t>::min();
  if (!arguments[0].isInt() || !arguments[1].isInt())
    return;
  const int64_t first = arguments[0].toInt(), second = arguments[1].toInt();
  TORCH_CHECK((first != -1 || second != least) && (second != -1 || first != least), "the quotient of ", least,
              " and -1 does not fit in 64 bits");
}

/// `value` as an operand of `type`: a tensor, or a number that is one of no dimensions.
static at::Tensor operandOf(const IValue &value) {
  return value.isTensor() ? tensorOf(value) : at::native::wrapped_scalar_tensor(value.toScalar());
}

/// div(self, other, rounding_mode): where that is `trunc`, the processor answers with a signal if a quotient
/// of integers does not fit.
static void checkTruncation(ArrayRef<IValue> arguments) {
  if (arguments.size() != 3 || !arguments[2].isString() || arguments[2].toStringRef() != "trunc")
    return;
  const at::Tensor dividend = operandOf(arguments[0]), divisor = operandOf(arguments[1]);
  const at::ScalarType type = at::result_type(dividend, divisor);
  if (type != at::kLong && type != at::kInt)
    return;
  const at::Tensor negative = divisor.to(type).eq(-1);
  if (!negative.any().item().toBool())
    return;
  const int64_t least =
      type == at::kInt ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
  TORCH_CHECK(!dividend.to(type).eq(least).logical_and(negative).any().item().toBool(), "the quotient of ",
              least, " and -1 does not fit in ", type);
}

/// range(start, end, step, …), or without a step: the kernel believes that 64 bits count the numbers.
template <bool hasStep> static void checkNumbers(ArrayRef<IValue> arguments) {
  const double begin = arguments[0].toScalar().toDouble(), end = arguments[1].toScalar().toDouble();
  const double count = (end - begin) / (hasStep ? arguments[2].toScalar().toDouble() : 1);
  TORCH_CHECK(std::abs(count) < 0x1p53, "found a range of ", count, " numbers");
}

/// smooth_l1_loss_backward(grad_output, self, target, reduction, beta): of integers it divides by an integer.
static void checkBeta(ArrayRef<IValue> arguments) {
  TORCH_CHECK(!c10::isIntegralType(at::result_type(tensorOf(arguments[1]), tensorOf(arguments[2])),
                                   /*includeBool=*/true),
              "found integers, expected numbers that have a gradient");
}

/// max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode) adds and multiplies these in 64 bits.
static void checkWindow(ArrayRef<IValue> arguments) {
  for (const IValue &numbers : arguments.slice(1, 4))
    for (int64_t number : numbers.toIntVector())
      TORCH_CHECK(std::abs(number) <= std::numeric_limits<int32_t>::max(), "found ", number,
                  " in the description of a window, expected a number of 32 bits");
}

/// pad(self, pad, …), and the operators that it calls: kernels add the numbers to sizes in 64 bits.
static void checkPad(ArrayRef<IValue> arguments) {
  for (int64_t number : arguments[1].toIntVector())
    TORCH_CHECK(std::abs(number) <= std::numeric_limits<int32_t>::max(), "found a padding of ", number,
                ", expected a number of 32 bits");
}

/// grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners).
static void checkSampler(ArrayRef<IValue> arguments) {
  for (const IValue &mode : arguments.slice(2, 2))
    TORCH_CHECK(mode.toInt() >= 0 && mode.toInt() <= 2, "found the mode ", mode.toInt(),
                ", expected 0, 1 or 2");
}

//===- Indices ------------------------------------------------------------===//

void checkRange(const at::Tensor &indices, int64_t end) {
  TORCH_CHECK(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt, "found indices of ",
              indices.scalar_type(), ", expected integers");
  if (indices.numel() == 0)
    return;
  auto [min, max] = at::aminmax(indices);
  const int64_t least = min.item().toLong(), most = max.item().toLong();
  TORCH_CHECK(least >= 0 && most < end, "found an index of ", least < 0 ? least : most,
              ", expected one from 0 to ", end - 1);
}

/// The gradient of max pooling over the last `spatial` dimensions: gradient, input, …, indices. Indices count
/// positions of one channel; they are dense, as the input is or row-major.
template <int64_t spatial> static void checkPool(ArrayRef<IValue> arguments) {
  const at::Tensor &gradient = tensorOf(arguments[0]), &input = tensorOf(arguments[1]),
                   &indices = tensorOf(arguments.back());
  checkSameSizes(gradient, indices);
  TORCH_CHECK(input.dim() == gradient.dim() && input.dim() > spatial &&
                  input.scalar_type() == gradient.scalar_type() && indices.scalar_type() == at::kLong &&
                  (indices.is_contiguous() || indices.is_contiguous(input.suggest_memory_format())),
              "found a gradient ", gradient.sizes(), " of an input ", input.sizes());
  const int64_t leading = input.dim() - spatial;
  TORCH_CHECK(input.sizes().slice(0, leading) == gradient.sizes().slice(0, leading), "found a gradient ",
              gradient.sizes(), " of an input ", input.sizes());
  checkRange(indices, c10::multiply_integers(input.sizes().slice(leading)));
}

/// The gradient of adaptive average pooling: gradient, input.
template <int64_t spatial> static void checkAveragePool(ArrayRef<IValue> arguments) {
  const at::Tensor &gradient = tensorOf(arguments[0]), &input = tensorOf(arguments[1]);
  const int64_t leading = input.dim() - spatial;
  TORCH_CHECK(leading > 0 && gradient.dim() == input.dim() &&
                  input.sizes().slice(0, leading) == gradient.sizes().slice(0, leading) && input.numel() > 0,
              "found a gradient ", gradient.sizes(), " of an input ", input.sizes());
}

/// repeat_interleave(repeats, …) and repeat_interleave(self, repeats, …): the kernel adds the repeats in 64
/// bits.
static void checkRepeats(ArrayRef<IValue> arguments) {
  const IValue &repeats = arguments.size() == 2 ? arguments[0] : arguments[1];
  constexpr int64_t most = int64_t(1) << 31;
  if (repeats.isTensor())
    checkRange(tensorOf(repeats), most);
  else
    TORCH_CHECK(repeats.toInt() < most, "found ", repeats.toInt(), " repeats, expected less than ", most);
}

/// embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq).
static void checkRows(ArrayRef<IValue> arguments) {
  const at::Tensor &gradient = tensorOf(arguments[0]), &indices = tensorOf(arguments[1]);
  TORCH_CHECK(gradient.dim() == indices.dim() + 1 &&
                  gradient.sizes().slice(0, indices.dim()) == indices.sizes(),
              "found a gradient ", gradient.sizes(), " of rows at indices ", indices.sizes());
  const int64_t rows = arguments[2].toInt(), padding = arguments[3].toInt();
  // Kernels leave out indices that equal the padding, unless they count how often each index occurs.
  const bool leavesOut = (padding < 0 || padding >= rows) && !arguments[4].toBool();
  checkRange(leavesOut ? indices.masked_fill(indices.eq(padding), 0) : indices, rows);
}

/// embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
/// include_last_offset, …).
static void checkBags(ArrayRef<IValue> arguments) {
  const at::Tensor &weight = tensorOf(arguments[0]), &indices = tensorOf(arguments[1]),
                   &offsets = tensorOf(arguments[2]);
  TORCH_CHECK(weight.dim() == 2 && indices.dim() == 1 && offsets.dim() == 1 && offsets.numel() > 0,
              "found a table ", weight.sizes(), ", indices ", indices.sizes(), " and offsets ",
              offsets.sizes(), ", expected a matrix and two vectors");
  // Kernels read them as if they were.
  TORCH_CHECK(indices.is_contiguous() && offsets.is_contiguous(), "found non-contiguous indices or offsets");
  TORCH_CHECK(!arguments[7].toBool() || offsets.numel() > 1,
              "found one offset with include_last_offset, expected two or more");
  TORCH_CHECK(arguments[4].toInt() >= 0 && arguments[4].toInt() <= 2, "found the mode ", arguments[4].toInt(),
              ", expected 0, 1 or 2");
  checkRange(indices, weight.size(0));
  checkRange(offsets, indices.numel() + 1);
  checkRange(at::diff(offsets), indices.numel() + 1);
  if (arguments[6].isTensor() && arguments[6].toTensor().defined()) {
    checkSameSizes(arguments[6].toTensor(), indices);
    TORCH_CHECK(arguments[6].toTensor().is_contiguous(), "found non-contiguous per_sample_weights");
  }
}

//===- Sizes that go together ---------------------------------------------===//

/// scaled_dot_product_attention(query, key, value, …, enable_gqa): heads are divided by those of the keys.
static void checkAttention(ArrayRef<IValue> arguments) {
  for (const IValue &operand : arguments.slice(1, 2))
    TORCH_CHECK(tensorOf(operand).dim() < 3 || tensorOf(operand).size(-3) > 0, "found keys or values ",
                tensorOf(operand).sizes(), ", which have no head");
}

/// copy(self, src, …): reads what `self` is before it looks whether it is there.
static void checkBothGiven(ArrayRef<IValue> arguments) {
  // Lists and dicts have a copy of one argument.
  if (arguments.size() < 2)
    return;
  tensorOf(arguments[0]);
  tensorOf(arguments[1]);
}

/// batch_norm(input, weight, bias, running_mean, running_var, training, …), and instance_norm: when training
/// they write to the running statistics, which their schemas do not say.
static void checkReadsStatistics(ArrayRef<IValue> arguments) {
  for (const IValue &statistics : arguments.slice(3, 2))
    TORCH_CHECK(!arguments[5].toBool() || !statistics.isTensor() || !statistics.toTensor().defined(),
                "found running statistics that would be written to; compile the model again");
}

/// _native_batch_norm_legit_functional(input, weight, bias, running_mean, running_var, training, …).
static void checkFunctionalBatchNorm(ArrayRef<IValue> arguments) {
  const at::Tensor &input = tensorOf(arguments[0]);
  TORCH_CHECK(input.dim() >= 2 && input.numel() > 0, "found an input ", input.sizes(), ", expected channels");
  for (const IValue &value : arguments.slice(1, 4))
    if (value.isTensor() && value.toTensor().defined())
      TORCH_CHECK(value.toTensor().is_contiguous() && value.toTensor().dim() == 1 &&
                      value.toTensor().numel() == input.size(1) &&
                      value.toTensor().scalar_type() == input.scalar_type(),
                  "found ", value.toTensor().sizes(), " of the ", input.size(1), " channels of ",
                  input.sizes());
}

/// _weight_norm(v, g, dim): one length a slice of `v`, or one of all.
static void checkWeightNorm(ArrayRef<IValue> arguments) {
  const at::Tensor &direction = tensorOf(arguments[0]), &length = tensorOf(arguments[1]);
  const int64_t dim = arguments[2].toInt();
  const bool isWhole = dim == -1;
  TORCH_CHECK(direction.numel() > 0 && direction.scalar_type() == length.scalar_type() && dim >= -1 &&
                  dim < direction.dim() && length.numel() == (isWhole ? 1 : direction.size(dim)) &&
                  (isWhole || (length.dim() == direction.dim() && length.size(dim) == length.numel())),
              "found lengths ", length.sizes(), " along dimension ", dim, " of ", direction.sizes());
}

/// quantize_per_channel(self, scales, zero_points, axis, dtype).
static void checkChannels(ArrayRef<IValue> arguments) {
  const at::Tensor &whole = tensorOf(arguments[0]), &scales = tensorOf(arguments[1]),
                   &zeros = tensorOf(arguments[2]);
  const int64_t axis = arguments[3].toInt();
  // Zero points that are no integers are those of tables of bytes.
  const bool isTable = zeros.scalar_type() == at::kFloat && arguments[4].toInt() == int64_t(at::kQUInt8);
  TORCH_CHECK(isTable || c10::isIntegralType(zeros.scalar_type(), /*includeBool=*/false),
              "found zero points of ", zeros.scalar_type(), ", expected integers");
  TORCH_CHECK(axis >= 0 && axis < whole.dim() && scales.dim() == 1 && zeros.dim() == 1 &&
                  scales.numel() == whole.size(axis) && zeros.numel() == whole.size(axis),
              "found scales ", scales.sizes(), " and zero points ", zeros.sizes(), " along dimension ", axis,
              " of ", whole.sizes());
}

/// quantized::batch_norm…(input, weight, bias, mean, variance, …): one number a channel, one behind the
/// other.
static void checkChannelParameters(ArrayRef<IValue> arguments) {
  const at::Tensor &input = tensorOf(arguments[0]);
  TORCH_CHECK(input.dim() >= 2, "found an input ", input.sizes(), ", expected channels");
  for (const IValue &value : arguments.slice(1, 4))
    if (value.isTensor() && value.toTensor().defined())
      TORCH_CHECK(value.toTensor().is_contiguous() && value.toTensor().numel() == input.size(1) &&
                      value.toTensor().scalar_type() == at::kFloat,
                  "found ", value.toTensor().sizes(), " of the ", input.size(1), " channels of ",
                  input.sizes());
}

/// _adaptive_avg_pool2d(self, output_size) of a quantized tensor reads two sizes.
static void checkPlaneSizes(ArrayRef<IValue> arguments) {
  TORCH_CHECK(arguments[1].toIntVector().size() == 2, "found ", arguments[1].toIntVector().size(),
              " sizes of the output, expected two");
}

/// native_channel_shuffle(self, groups) divides by the groups.
static void checkGroups(ArrayRef<IValue> arguments) {
  TORCH_CHECK(arguments[1].toInt() > 0, "found ", arguments[1].toInt(), " groups, expected one or more");
}

/// quantized::embedding_bag_prepack(weight): other tables than those of bytes are read as such.
static void checkByteTable(ArrayRef<IValue> arguments) {
  TORCH_CHECK(tensorOf(arguments[0]).scalar_type() == at::kQUInt8, "found a table of ",
              tensorOf(arguments[0]).scalar_type(), ", expected quint8");
}

/// median(self, dim, keepdim): the kernel sorts in place where all elements along `dim` are the same one.
static void checkMedian(ArrayRef<IValue> arguments) {
  if (arguments.size() == 1 || !arguments[1].isInt())
    return;
  const at::Tensor &values = tensorOf(arguments[0]);
  if (values.dim() == 0)
    return;
  const int64_t dim = at::maybe_wrap_dim(arguments[1].toInt(), values.dim());
  TORCH_CHECK(values.size(dim) < 2 || values.stride(dim) > 0,
              "found a tensor that is expanded along dimension ", dim,
              "; take its median before it is expanded");
}

/// cov(self, correction, fweights, aweights): writes to a weighted observation that is the only one.
static void checkCovariance(ArrayRef<IValue> arguments) {
  const at::Tensor &observations = tensorOf(arguments[0]);
  TORCH_CHECK((arguments[2].isNone() && arguments[3].isNone()) || observations.numel() == 0 ||
                  (observations.dim() > 0 && observations.size(-1) > 1),
              "found one weighted observation in ", observations.sizes(), ", expected more");
}

/// linear_prepack_fp16(weight, bias) cuts off weights that float16 does not have, where they lie.
static void checkHalfWeights(ArrayRef<IValue> arguments) {
  const at::Tensor &weight = tensorOf(arguments[0]);
  constexpr double most = 65504;
  if (weight.numel() > 0 && weight.is_floating_point())
    TORCH_CHECK(!(weight.abs().max().item().toDouble() > most), "found weights beyond ", most,
                ", which float16 does not have");
}

/// to.prim_dtype(self, dtype, non_blocking, copy) and to.prim_Device(self, device, dtype, …) take none for a
/// dtype, and read it. The other overloads have as many arguments and a dtype that is never none.
static void checkGivenDType(ArrayRef<IValue> arguments) {
  const bool isMissing = arguments.size() == 4   ? arguments[1].isNone()
                         : arguments.size() == 5 ? arguments[1].isNone() && arguments[2].isNone()
                                                 : false;
  TORCH_CHECK(!isMissing, "found no dtype, expected one");
}

/// _log_softmax_backward_data(grad_output, output, dim, input_dtype), and that of softmax.
static void checkSoftmaxGradient(ArrayRef<IValue> arguments) {
  checkSameSizes(tensorOf(arguments[0]), tensorOf(arguments[1]));
}

/// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask).
static void checkLayerNormGradient(ArrayRef<IValue> arguments) {
  const at::Tensor &gradient = tensorOf(arguments[0]), &input = tensorOf(arguments[1]);
  checkSameSizes(gradient, input);
  const std::vector<int64_t> shape = arguments[2].toIntVector();
  TORCH_CHECK(int64_t(shape.size()) <= input.dim() &&
                  input.sizes().slice(input.dim() - shape.size()) == shape,
              "found an input ", input.sizes(), " normalized over ", at::IntArrayRef(shape));
  const int64_t rows = c10::multiply_integers(input.sizes().slice(0, input.dim() - shape.size()));
  for (const IValue &statistics : arguments.slice(3, 2))
    TORCH_CHECK(tensorOf(statistics).numel() == rows, "found statistics ", tensorOf(statistics).sizes(),
                " of ", rows, " rows");
  for (const IValue &parameter : arguments.slice(5, 2))
    if (parameter.isTensor() && parameter.toTensor().defined())
      TORCH_CHECK(parameter.toTensor().sizes() == at::IntArrayRef(shape), "found a parameter ",
                  parameter.toTensor().sizes(), " of ", at::IntArrayRef(shape));
}

ArgumentCheck argumentCheckOf(llvm::StringRef name, llvm::StringRef overload) {
  if (ArgumentCheck check = listCheckOf(name, overload))
    return check;
  if (ArgumentCheck check = scaleCheckOf(name, overload))
    return check;
  if (ArgumentCheck check = gradientCheckOf(name))
    return check;
  if (ArgumentCheck check = attentionCheckOf(name))
    return check;
  if (ArgumentCheck check = shapeCheckOf(name))
    return check;
  if (ArgumentCheck check = convolutionCheckOf(name))
    return check;
  if (ArgumentCheck check = recurrentCheckOf(name, overload))
    return check;
  if (name == "aten::range")
    return overload == "step" ? checkNumbers<true> : checkNumbers<false>;
  static const llvm::StringMap<ArgumentCheck> checks = {
      {"_quantized::linear_prepack_fp16", checkHalfWeights},
      {"aten::__round_to_zero_floordiv", checkDivision},
      {"aten::_adaptive_avg_pool2d", checkPlaneSizes},
      {"aten::_adaptive_avg_pool2d_backward", checkAveragePool<2>},
      {"aten::_adaptive_avg_pool3d_backward", checkAveragePool<3>},
      {"aten::_embedding_bag", checkBags},
      {"aten::_pad_enum", checkPad},
      {"aten::_log_softmax_backward_data", checkSoftmaxGradient},
      {"aten::_native_batch_norm_legit_functional", checkFunctionalBatchNorm},
      {"aten::_scaled_dot_product_attention_math", checkAttention},
      {"aten::_softmax_backward_data", checkSoftmaxGradient},
      {"aten::_weight_norm", checkWeightNorm},
      {"aten::adaptive_max_pool2d_backward", checkPool<2>},
      {"aten::adaptive_max_pool3d_backward", checkPool<3>},
      {"aten::batch_norm", checkReadsStatistics},
      {"aten::constant_pad_nd", checkPad},
      {"aten::copy", checkBothGiven},
      {"aten::embedding_bag", checkBags},
      {"aten::embedding_dense_backward", checkRows},
      {"aten::cov", checkCovariance},
      {"aten::div", checkTruncation},
      {"aten::divide", checkTruncation},
      {"aten::divmod", checkDivision},
      {"aten::floordiv", checkDivision},
      {"aten::gcd", checkDivisor},
      {"aten::grid_sampler", checkSampler},
      {"aten::grid_sampler_2d", checkSampler},
      {"aten::grid_sampler_3d", checkSampler},
      {"aten::instance_norm", checkReadsStatistics},
      {"aten::max_pool1d", checkWindow},
      {"aten::max_pool2d_with_indices_backward", checkPool<2>},
      {"aten::max_pool3d_with_indices_backward", checkPool<3>},
      {"aten::median", checkMedian},
      {"aten::nanmedian", checkMedian},
      {"aten::native_channel_shuffle", checkGroups},
      {"aten::native_layer_norm_backward", checkLayerNormGradient},
      {"aten::quantize_per_channel", checkChannels},
      {"aten::remainder", checkDivision},
      {"aten::pad", checkPad},
      {"aten::reflection_pad1d", checkPad},
      {"aten::reflection_pad2d", checkPad},
      {"aten::reflection_pad3d", checkPad},
      {"aten::replication_pad1d", checkPad},
      {"aten::replication_pad2d", checkPad},
      {"aten::replication_pad3d", checkPad},
      {"aten::repeat_interleave", checkRepeats},
      {"aten::scaled_dot_product_attention", checkAttention},
      {"aten::smooth_l1_loss_backward", checkBeta},
      {"aten::to", checkGivenDType},
      {"quantized::batch_norm", checkChannelParameters},
      {"quantized::batch_norm1d", checkChannelParameters},
      {"quantized::batch_norm1d_relu", checkChannelParameters},
      {"quantized::batch_norm2d", checkChannelParameters},
      {"quantized::batch_norm2d_relu", checkChannelParameters},
      {"quantized::batch_norm3d", checkChannelParameters},
      {"quantized::batch_norm3d_relu", checkChannelParameters},
      {"quantized::batch_norm_relu", checkChannelParameters},
      {"quantized::embedding_bag_prepack", checkByteTable},
      {"quantized::linear_prepack_fp16", checkHalfWeights},
  };
  return checks.lookup(name);
}

} // namespace cleave::runtime
