//===- GradientChecks.cpp - What gradients of layers need of arguments ----===//
#include "runtime/operators/ArgumentCheckParts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/masked_select.h>
#include <array>
#include <limits>

namespace cleave::runtime {

using c10::IValue;
using llvm::ArrayRef;

/// One number a channel, one behind the other: of the type of the data, or wider than that.
static void checkPerChannel(const at::Tensor &tensor, int64_t channels, at::ScalarType data) {
  TORCH_CHECK(tensor.numel() == channels && tensor.is_contiguous(), "found ", tensor.sizes(), " of ",
              channels, " channels, expected one number a channel without gaps");
  if (tensor.scalar_type() != at::kFloat || !at::isReducedFloatingType(data))
    checkDType(tensor, data);
}

//===- Convolutions -------------------------------------------------------===//

namespace {
/// The numbers of a convolution, one a dimension.
struct Window {
  std::vector<int64_t> stride, padding, dilation, outputPadding;
};
} // namespace

/// Sizes of 32 bits times such numbers do not overflow.
static constexpr int64_t kMaxWindow = 1 << 24;

/// `numbers` for each of `dims` dimensions, none below `least`.
static std::vector<int64_t> numbersOf(const IValue &numbers, size_t dims, int64_t least) {
  std::vector<int64_t> found = numbers.toIntVector();
  if (found.size() == 1)
    found.resize(dims, found[0]);
  TORCH_CHECK(found.size() == dims && llvm::all_of(found,
                                                   [&](int64_t number) {
                                                     return number >= least &&
                                                            number <= std::numeric_limits<int32_t>::max();
                                                   }),
              "found ", at::IntArrayRef(found), " for ", dims, " dimensions, expected a number from ", least,
              " on for each");
  return found;
}

static int64_t convolvedSize(const Window &window, size_t dim, int64_t size, int64_t kernel,
                             bool transposed) {
  const int64_t reach = window.dilation[dim] * (kernel - 1), padding = 2 * window.padding[dim];
  if (transposed)
    return (size - 1) * window.stride[dim] - padding + reach + window.outputPadding[dim] + 1;
  return size + padding < reach + 1 ? 0 : (size + padding - reach - 1) / window.stride[dim] + 1;
}

/// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed,
/// output_padding, groups, output_mask).
static void checkConvolution(ArrayRef<IValue> arguments) {
  const at::Tensor &gradient = tensorOf(arguments[0]), &input = tensorOf(arguments[1]),
                   &weight = tensorOf(arguments[2]);
  const bool transposed = arguments[7].toBool();
  const int64_t groups = arguments[9].toInt();
  TORCH_CHECK(input.dim() >= 3 && input.dim() <= 5 && weight.dim() == input.dim() && weight.numel() > 0 &&
                  input.numel() > 0,
              "found an input ", input.sizes(), " and a weight ", weight.sizes());
  TORCH_CHECK(groups > 0 && weight.size(0) % groups == 0 &&
                  input.size(1) == (transposed ? weight.size(0) : weight.size(1) * groups),
              "found an input ", input.sizes(), " and a weight ", weight.sizes(), " in ", groups, " groups");
  for (const at::Tensor *tensor : {&input, &weight})
    for (int64_t size : tensor->sizes())
      TORCH_CHECK(size <= std::numeric_limits<int32_t>::max(), "found a size of ", size);
  const size_t dims = size_t(input.dim()) - 2;
  const Window window = {numbersOf(arguments[4], dims, 1), numbersOf(arguments[5], dims, 0),
                         numbersOf(arguments[6], dims, 1), numbersOf(arguments[8], dims, 0)};
  std::vector<int64_t> expected = {input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (size_t i = 0; i < dims; ++i) {
    expected.push_back(
        convolvedSize(window, i, input.size(int64_t(i) + 2), weight.size(int64_t(i) + 2), transposed));
    TORCH_CHECK(!transposed || window.outputPadding[i] < std::max(window.stride[i], window.dilation[i]),
                "found an output padding of ", window.outputPadding[i]);
  }
  checkSizes(gradient, expected, "a gradient");
  for (const at::Tensor *tensor : {&gradient, &weight})
    checkDType(*tensor, input.scalar_type());
  // Autograd may say of a bias that is not there that it has no elements.
  const bool isWithoutBias = !arguments[10].toBoolList().get(2);
  if (!arguments[3].isNone() && !(isWithoutBias && arguments[3].toIntVector() == std::vector<int64_t>{0}))
    TORCH_CHECK(arguments[3].toIntVector() == std::vector<int64_t>{expected[1]}, "found a bias ",
                at::IntArrayRef(arguments[3].toIntVector()), ", expected one of ", expected[1]);
}

//===- Normalizations -----------------------------------------------------===//

/// Parameters and statistics of an input's channels, any of which may be left out: all have one type.
static void checkChannelParameters(ArrayRef<IValue> values, const at::Tensor &input) {
  std::optional<at::ScalarType> type;
  for (const IValue &value : values)
    if (const at::Tensor *tensor = optionalTensorOf(value)) {
      checkPerChannel(*tensor, input.size(1), input.scalar_type());
      checkDType(*tensor, type.value_or(tensor->scalar_type()));
      type = tensor->scalar_type();
    }
}

/// native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd,
/// train, eps, output_mask).
static void checkBatchNorm(ArrayRef<IValue> arguments) {
  const at::Tensor &gradient = tensorOf(arguments[0]), &input = tensorOf(arguments[1]);
  TORCH_CHECK(input.dim() >= 2 && input.numel() > 0, "found an input ", input.sizes(), ", expected channels");
  checkSizes(gradient, input.sizes(), "a gradient");
  checkDType(gradient, input.scalar_type());
  // When training those of the batch, otherwise those that are kept.
  for (size_t needed : arguments[7].toBool() ? std::array<size_t, 2>{5, 6} : std::array<size_t, 2>{3, 4})
    TORCH_CHECK(optionalTensorOf(arguments[needed]), "found no statistics, expected those of each channel");
  checkChannelParameters(arguments.slice(2, 5), input);
}

/// An input of native_group_norm and its gradient, of `numbers` N, C, H·W and groups.
static int64_t checkGroups(const at::Tensor &input, ArrayRef<IValue> numbers) {
  int64_t elements = 1;
  bool overflows = false;
  for (const IValue &number : numbers.take_front(3)) {
    TORCH_CHECK(number.toInt() >= 0, "found a size of ", number.toInt());
    overflows |= __builtin_mul_overflow(elements, number.toInt(), &elements);
  }
  const int64_t channels = numbers[1].toInt(), groups = numbers[3].toInt();
  TORCH_CHECK(!overflows && elements == input.numel() && elements > 0 && groups > 0 &&
                  channels % groups == 0 && input.dim() >= 2 && input.size(0) == numbers[0].toInt() &&
                  input.size(1) == channels,
              "found an input ", input.sizes(), " of ", channels, " channels in ", groups, " groups");
  TORCH_CHECK(input.is_contiguous(input.suggest_memory_format()), "found an input with gaps");
  return numbers[0].toInt() * groups;
}

/// native_group_norm(input, weight, bias, N, C, HxW, group, eps).
static void checkGroupNorm(ArrayRef<IValue> arguments) {
  const at::Tensor &input = tensorOf(arguments[0]);
  checkGroups(input, arguments.slice(3, 4));
  checkChannelParameters(arguments.slice(1, 2), input);
}

/// native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask).
static void checkGroupNormGradient(ArrayRef<IValue> arguments) {
  const at::Tensor &gradient = tensorOf(arguments[0]), &input = tensorOf(arguments[1]);
  const int64_t statistics = checkGroups(input, arguments.slice(5, 4));
  checkSizes(gradient, input.sizes(), "a gradient");
  checkDType(gradient, input.scalar_type());
  TORCH_CHECK(gradient.is_contiguous(input.suggest_memory_format()), "found a gradient with gaps");
  const at::ScalarType type = tensorOf(arguments[2]).scalar_type();
  for (const IValue &value : arguments.slice(2, 2)) {
    checkPerChannel(tensorOf(value), statistics, input.scalar_type());
    checkDType(tensorOf(value), type);
  }
  if (const at::Tensor *weight = optionalTensorOf(arguments[4])) {
    checkPerChannel(*weight, input.size(1), input.scalar_type());
    checkDType(*weight, type);
  }
}

//===- Pooling, padding and losses ----------------------------------------===//

/// The gradient of a window over the last `spatial` dimensions: gradient, input, …. Sizes along these are
/// checked by libtorch.
template <int64_t spatial> static void checkWindowGradient(ArrayRef<IValue> arguments) {
  const at::Tensor &gradient = tensorOf(arguments[0]), &input = tensorOf(arguments[1]);
  const int64_t leading = input.dim() - spatial;
  TORCH_CHECK(leading > 0 && leading <= 2 && gradient.dim() == input.dim() && input.numel() > 0 &&
                  input.sizes().slice(0, leading) == gradient.sizes().slice(0, leading),
              "found a gradient ", gradient.sizes(), " of an input ", input.sizes());
  checkDType(gradient, input.scalar_type());
}

/// The gradient of padding the last `spatial` dimensions: gradient, input, padding from the last dimension
/// on, in front and behind.
template <int64_t spatial, bool isReflected> static void checkPadding(ArrayRef<IValue> arguments) {
  checkWindowGradient<spatial>(arguments);
  const at::Tensor &gradient = tensorOf(arguments[0]), &input = tensorOf(arguments[1]);
  const std::vector<int64_t> padding = arguments[2].toIntVector();
  TORCH_CHECK(padding.size() == 2 * spatial, "found ", padding.size(), " numbers of padding");
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t size = input.size(-1 - i), before = padding[2 * i], behind = padding[2 * i + 1];
    const int64_t most = isReflected ? size - 1 : std::numeric_limits<int32_t>::max();
    TORCH_CHECK(before >= 0 && behind >= 0 && before <= most && behind <= most &&
                    gradient.size(-1 - i) == size + before + behind,
                "found a gradient ", gradient.sizes(), " of an input ", input.sizes(), " with padding ",
                at::IntArrayRef(padding));
  }
}

static void checkReduction(const IValue &reduction) {
  TORCH_CHECK(reduction.toInt() >= 0 && reduction.toInt() <= 2, "found the reduction ", reduction.toInt(),
              ", expected 0, 1 or 2");
}

/// nll_loss2d_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight).
static void checkImageLoss(ArrayRef<IValue> arguments) {
  const at::Tensor &gradient = tensorOf(arguments[0]), &input = tensorOf(arguments[1]),
                   &target = tensorOf(arguments[2]), &total = tensorOf(arguments[6]);
  TORCH_CHECK(input.dim() == 4 && input.numel() > 0, "found an input ", input.sizes());
  checkSizes(target, {input.size(0), input.size(2), input.size(3)}, "a target");
  checkDType(target, at::kLong);
  checkReduction(arguments[4]);
  const int64_t reduction = arguments[4].toInt(), classes = input.size(1);
  checkSizes(gradient, reduction == 0 ? target.sizes() : at::IntArrayRef(), "a gradient");
  TORCH_CHECK(total.numel() == 1, "found a total weight ", total.sizes());
  for (const at::Tensor *tensor : {&gradient, &total})
    checkDType(*tensor, input.scalar_type());
  if (const at::Tensor *weight = optionalTensorOf(arguments[3])) {
    checkPerChannel(*weight, classes, input.scalar_type());
    checkDType(*weight, input.scalar_type());
  }
  const at::Tensor counted = at::masked_select(target, target.ne(arguments[5].toInt()));
  if (counted.numel() == 0)
    return;
  auto [min, max] = at::aminmax(counted);
  TORCH_CHECK(min.item().toLong() >= 0 && max.item().toLong() < classes, "found a target from ",
              min.item().toLong(), " to ", max.item().toLong(), ", expected one below ", classes);
}

/// Checks that `weight` is missing, or has one number, or as many as `input`.
static void checkLossWeight(const IValue &value, const at::Tensor &input) {
  if (const at::Tensor *weight = optionalTensorOf(value))
    TORCH_CHECK(weight->numel() == 1 || weight->sizes() == input.sizes(), "found a weight ", weight->sizes(),
                " of ", input.sizes());
}

/// binary_cross_entropy(self, target, weight, reduction).
static void checkBinaryLoss(ArrayRef<IValue> arguments) {
  const at::Tensor &input = tensorOf(arguments[0]), &target = tensorOf(arguments[1]);
  checkSizes(target, input.sizes(), "a target");
  checkLossWeight(arguments[2], input);
  checkReduction(arguments[3]);
}

/// soft_margin_loss(self, target, reduction).
static void checkMarginLoss(ArrayRef<IValue> arguments) {
  checkSizes(tensorOf(arguments[1]), tensorOf(arguments[0]).sizes(), "a target");
  checkReduction(arguments[2]);
}

/// binary_cross_entropy_backward(grad_output, self, target, weight, reduction).
static void checkBinaryLossGradient(ArrayRef<IValue> arguments) {
  checkBinaryLoss(arguments.drop_front());
  const at::Tensor &gradient = tensorOf(arguments[0]);
  checkSizes(gradient, arguments[4].toInt() == 0 ? tensorOf(arguments[1]).sizes() : at::IntArrayRef(),
             "a gradient");
}

/// gather_backward(grad, self, dim, index, sparse_grad).
static void checkDenseGradient(ArrayRef<IValue> arguments) {
  TORCH_CHECK(!arguments[4].toBool(), "found a sparse gradient, expected a dense one");
}

/// unfold_backward(grad_in, input_sizes, dim, size, step).
static void checkUnfolded(ArrayRef<IValue> arguments) {
  std::vector<int64_t> expected = arguments[1].toIntVector();
  const int64_t size = arguments[3].toInt(), step = arguments[4].toInt();
  const int64_t dim = at::maybe_wrap_dim(arguments[2].toInt(), int64_t(expected.size()));
  TORCH_CHECK(!expected.empty() && size > 0 && step > 0 && size <= expected[dim], "found windows of ", size,
              " at steps of ", step, " over ", at::IntArrayRef(expected));
  expected[dim] = (expected[dim] - size) / step + 1;
  expected.push_back(size);
  checkSizes(tensorOf(arguments[0]), expected, "a gradient");
}

/// grid_sampler_2d_backward(grad_output, input, grid, interpolation_mode, padding_mode, …), and that of three
/// dimensions.
template <int64_t spatial> static void checkSampled(ArrayRef<IValue> arguments) {
  const at::Tensor &gradient = tensorOf(arguments[0]), &input = tensorOf(arguments[1]),
                   &grid = tensorOf(arguments[2]);
  for (const IValue &mode : arguments.slice(3, 2))
    TORCH_CHECK(mode.toInt() >= 0 && mode.toInt() <= 2, "found the mode ", mode.toInt(),
                ", expected 0, 1 or 2");
  TORCH_CHECK(input.dim() == spatial + 2 && input.numel() > 0 && grid.dim() == spatial + 2 &&
                  grid.size(0) == input.size(0) && grid.size(-1) == spatial,
              "found an input ", input.sizes(), " and a grid ", grid.sizes());
  std::vector<int64_t> expected = grid.sizes().vec();
  expected.pop_back();
  expected.insert(expected.begin() + 1, input.size(1));
  checkSizes(gradient, expected, "a gradient");
  for (const at::Tensor *tensor : {&gradient, &grid})
    checkDType(*tensor, input.scalar_type());
}

ArgumentCheck gradientCheckOf(llvm::StringRef name) {
  static const llvm::StringMap<ArgumentCheck> checks = {
      {"aten::avg_pool2d_backward", checkWindowGradient<2>},
      {"aten::avg_pool3d_backward", checkWindowGradient<3>},
      {"aten::binary_cross_entropy", checkBinaryLoss},
      {"aten::binary_cross_entropy_backward", checkBinaryLossGradient},
      {"aten::convolution_backward", checkConvolution},
      {"aten::gather_backward", checkDenseGradient},
      {"aten::grid_sampler_2d_backward", checkSampled<2>},
      {"aten::grid_sampler_3d_backward", checkSampled<3>},
      {"aten::native_batch_norm_backward", checkBatchNorm},
      {"aten::native_group_norm", checkGroupNorm},
      {"aten::native_group_norm_backward", checkGroupNormGradient},
      {"aten::nll_loss2d_backward", checkImageLoss},
      {"aten::reflection_pad1d_backward", checkPadding<1, true>},
      {"aten::reflection_pad2d_backward", checkPadding<2, true>},
      {"aten::replication_pad1d_backward", checkPadding<1, false>},
      {"aten::replication_pad2d_backward", checkPadding<2, false>},
      {"aten::replication_pad3d_backward", checkPadding<3, false>},
      {"aten::soft_margin_loss", checkMarginLoss},
      {"aten::unfold_backward", checkUnfolded},
  };
  return checks.lookup(name);
}

} // namespace cleave::runtime
