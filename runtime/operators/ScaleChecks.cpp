//===- ScaleChecks.cpp - Scales that operators are told beside sizes ------===//
#include "runtime/operators/ArgumentCheckParts.h"
#include <cmath>
#include <limits>

namespace cleave::runtime {

using c10::IValue;
using llvm::ArrayRef;

/// Kernels take positions in the input from the scale alone.
static void checkScale(double scale, int64_t from, int64_t to) {
  const double scaled = double(from) * scale;
  TORCH_CHECK(std::abs(scaled - double(to)) < 1 && scaled >= 0.5, "found the scale ", scale, " from ", from,
              " to ", to);
}

/// upsample_…(self, output_size, …, a scale a dimension), or its gradient (grad_output, output_size,
/// input_size, …, a scale a dimension).
template <bool isGradient> static void checkScales(ArrayRef<IValue> arguments) {
  const std::vector<int64_t> to = arguments[1].toIntVector();
  const std::vector<int64_t> from =
      isGradient ? arguments[2].toIntVector() : tensorOf(arguments[0]).sizes().vec();
  const size_t count = to.size();
  TORCH_CHECK(count > 0 && from.size() == count + 2 && arguments.size() >= count + 2 + isGradient, "found ",
              from.size(), " dimensions, of which ", count, " are resized");
  for (size_t i = 0; i < count; ++i)
    if (const IValue &scale = arguments[arguments.size() - count + i]; !scale.isNone())
      checkScale(scale.toDouble(), from[i + 2], to[i]);
}

/// upsample_….vec(input, output_size, …, scale_factors), which takes one of both.
static void checkScaleFactors(ArrayRef<IValue> arguments) {
  if (arguments.back().isNone())
    return;
  const at::Tensor &input = tensorOf(arguments[0]);
  const std::vector<double> scales = arguments.back().toDoubleVector();
  TORCH_CHECK(input.dim() == int64_t(scales.size()) + 2, "found ", scales.size(), " scales of an input ",
              input.sizes());
  for (size_t i = 0; i < scales.size(); ++i) {
    const double to = std::floor(double(input.size(int64_t(i) + 2)) * scales[i]);
    TORCH_CHECK(to >= 1 && to <= std::numeric_limits<int32_t>::max(), "found the scale ", scales[i], " of ",
                input.size(int64_t(i) + 2));
  }
}

ArgumentCheck scaleCheckOf(llvm::StringRef name, llvm::StringRef overload) {
  if (!name.starts_with("aten::upsample_") && !name.starts_with("aten::_upsample_"))
    return nullptr;
  if (overload == "vec")
    return checkScaleFactors;
  return name.ends_with("_backward") ? checkScales<true> : checkScales<false>;
}

} // namespace cleave::runtime
