//===- ConvolutionChecks.cpp - Windows that convolutions trust ------------===//
#include "runtime/operators/ArgumentCheckParts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringMap.h"
#include <ATen/autocast_mode.h>
#include <ATen/native/quantized/PackedParams.h>

namespace cleave::runtime {

using c10::IValue;
using llvm::ArrayRef;

//===- Packed weights -----------------------------------------------------===//

/// The kernel of a transposed convolution reads too much where a stride jumps over positions of the output.
static void checkReach(const at::Tensor &weight, at::IntArrayRef strides, at::IntArrayRef dilations) {
  for (size_t dim = 0; dim < strides.size() && dim < dilations.size() && int64_t(dim) + 2 < weight.dim();
       ++dim)
    TORCH_CHECK(strides[dim] <= (weight.size(int64_t(dim) + 2) - 1) * dilations[dim] + 1,
                "found a stride of ", strides[dim], " that is larger than the window ",
                weight.sizes().slice(2));
}

/// quantized::conv…_prepack(weight, bias, stride, padding, dilation, groups), where `isTransposed` with the
/// padding of the output before the dilation.
template <bool isTransposed> static void checkConvolutionPack(ArrayRef<IValue> arguments) {
  const at::Tensor &weight = tensorOf(arguments[0]);
  for (const IValue &numbers : arguments.slice(2, arguments.size() - 3))
    for (int64_t number : numbers.toIntVector())
      TORCH_CHECK(number >= 0 && number <= 31, "found ", number, " in the description of a window");
  for (size_t positive : {size_t(2), arguments.size() - 2})
    for (int64_t number : arguments[positive].toIntVector())
      TORCH_CHECK(number > 0, "found a stride or dilation of ", number);
  const int64_t groups = arguments.back().toInt();
  TORCH_CHECK(weight.dim() >= 3 && weight.numel() > 0 && groups > 0 && groups <= weight.size(0) &&
                  weight.size(0) % groups == 0 && weight.scalar_type() == at::kQInt8,
              "found a weight ", weight.sizes(), " of ", weight.scalar_type(), " in ", groups, " groups");
  if (isTransposed)
    checkReach(weight, arguments[2].toIntVector(), arguments[arguments.size() - 2].toIntVector());
  if (!arguments[1].isTensor() || !arguments[1].toTensor().defined())
    return;
  const at::Tensor &bias = arguments[1].toTensor();
  TORCH_CHECK(bias.scalar_type() == at::kFloat && bias.dim() == 1 && bias.is_contiguous() &&
                  bias.numel() == (isTransposed ? weight.size(1) * groups : weight.size(0)),
              "found a bias ", bias.sizes(), " of ", bias.scalar_type(), " for a weight ", weight.sizes());
}

//===- Outputs of one column ----------------------------------------------===//

static bool hasAmx() {
#ifdef __x86_64__
  static const bool found = __builtin_cpu_supports("amx-tile");
  return found;
#else
  return false;
#endif
}

/// oneDNN's AMX kernels of bfloat16 and int8 (PyTorch 2.11.0) read memory that nobody wrote where the output
/// is one column wide and several rows high, and the window is wider than a column and moves by more than
/// one. The last three have a number for each dimension of `image`, which is in rows and columns at its end,
/// or one for all.
static void checkOneColumn(at::IntArrayRef image, at::IntArrayRef window, at::IntArrayRef strides,
                           at::IntArrayRef paddings, at::IntArrayRef dilations) {
  auto at = [](at::IntArrayRef numbers, size_t dim) {
    return numbers.size() == 1 ? numbers[0] : numbers[dim];
  };
  auto isKnown = [&](at::IntArrayRef numbers) {
    return numbers.size() == 1 || numbers.size() == image.size();
  };
  if (image.size() < 2 || window.size() != image.size() || !isKnown(strides) || !isKnown(paddings) ||
      !isKnown(dilations))
    return;
  auto steps = [&](size_t dim) { // To the last position of the window.
    return (image[dim] + 2 * at(paddings, dim) - at(dilations, dim) * (window[dim] - 1) - 1) /
           std::max<int64_t>(1, at(strides, dim));
  };
  const size_t last = image.size() - 1;
  const bool hasRows = llvm::any_of(llvm::seq(last), [&](size_t dim) { return steps(dim) > 0; });
  TORCH_CHECK(!hasRows || steps(last) != 0 || at(strides, last) <= 1 || window[last] <= 1,
              "found an output of one column, from an image of ", image, " and a window of ", window,
              " that moves by ", strides,
              "; AMX kernels compute these wrong in bfloat16 and int8: use float32, "
              "or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16");
}

/// conv…(input, weight, bias, stride, padding, dilation, groups), and convolution, which has `transposed`
/// before the groups.
static void checkNarrowConvolution(ArrayRef<IValue> arguments) {
  const at::Tensor &input = tensorOf(arguments[0]), &weight = tensorOf(arguments[1]);
  const bool isCast = at::autocast::is_autocast_enabled(at::kCPU);
  const at::ScalarType type = isCast ? at::autocast::get_autocast_dtype(at::kCPU) : input.scalar_type();
  const bool isTransposed = arguments[6].isBool() && arguments[6].toBool();
  if (!hasAmx() || type != at::kBFloat16 || weight.dim() < 4 || input.dim() + 1 < weight.dim() ||
      isTransposed || !arguments[4].isIntList())
    return;
  const int64_t dims = weight.dim() - 2;
  checkOneColumn(input.sizes().slice(size_t(input.dim() - dims)), weight.sizes().slice(2),
                 arguments[3].toIntVector(), arguments[4].toIntVector(), arguments[5].toIntVector());
}

/// quantized::conv…(input, packed weights, …) of `dims` dimensions; transposed ones take such weights, too.
template <int dims> static void checkQuantizedConvolution(ArrayRef<IValue> arguments) {
  const at::Tensor &input = tensorOf(arguments[0]);
  const auto packed = arguments[1].toCustomClass<ConvPackedParamsBase<dims>>();
  const std::vector<int64_t> strides = packed->stride().vec();
  if (!hasAmx() || packed->transpose() || input.dim() < dims || strides.empty() || strides.back() <= 1)
    return;
  const at::Tensor weight = std::get<0>(packed->unpack());
  checkOneColumn(input.sizes().slice(size_t(input.dim() - dims)), weight.sizes().slice(2), strides,
                 packed->padding().vec(), packed->dilation().vec());
}

ArgumentCheck convolutionCheckOf(llvm::StringRef name) {
  static const llvm::StringMap<ArgumentCheck> checks = {
      {"_quantized::conv2d", checkQuantizedConvolution<2>},
      {"_quantized::conv2d_relu", checkQuantizedConvolution<2>},
      {"_quantized::conv3d", checkQuantizedConvolution<3>},
      {"_quantized::conv3d_relu", checkQuantizedConvolution<3>},
      {"_quantized::conv_transpose2d", checkQuantizedConvolution<2>},
      {"aten::_convolution", checkNarrowConvolution},
      {"aten::conv2d", checkNarrowConvolution},
      {"aten::conv3d", checkNarrowConvolution},
      {"aten::convolution", checkNarrowConvolution},
      {"quantized::conv_prepack", checkConvolutionPack<false>},
      {"quantized::conv1d_prepack", checkConvolutionPack<false>},
      {"quantized::conv2d", checkQuantizedConvolution<2>},
      {"quantized::conv2d_dynamic", checkQuantizedConvolution<2>},
      {"quantized::conv2d_prepack", checkConvolutionPack<false>},
      {"quantized::conv2d_relu", checkQuantizedConvolution<2>},
      {"quantized::conv3d", checkQuantizedConvolution<3>},
      {"quantized::conv3d_dynamic", checkQuantizedConvolution<3>},
      {"quantized::conv3d_prepack", checkConvolutionPack<false>},
      {"quantized::conv3d_relu", checkQuantizedConvolution<3>},
      {"quantized::conv_transpose1d_prepack", checkConvolutionPack<true>},
      {"quantized::conv_transpose2d", checkQuantizedConvolution<2>},
      {"quantized::conv_transpose2d_dynamic", checkQuantizedConvolution<2>},
      {"quantized::conv_transpose2d_prepack", checkConvolutionPack<true>},
      {"quantized::conv_transpose3d", checkQuantizedConvolution<3>},
      {"quantized::conv_transpose3d_dynamic", checkQuantizedConvolution<3>},
      {"quantized::conv_transpose3d_prepack", checkConvolutionPack<true>},
  };
  return checks.lookup(name);
}

} // namespace cleave::runtime
