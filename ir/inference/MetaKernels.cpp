//===- MetaKernels.cpp - Families of kernels for the meta device ----------===//
//
// Meta kernels for leaf operators that libtorch has only in Python, or not at all. Each kernel gives shape,
// dtype and strides like the CPU kernel; `cleave run --check-types` compares them.
//
//===----------------------------------------------------------------------===//
#include "ir/inference/MetaKernels.h"
#include "ir/inference/ShapeInference.h"
#include <ATen/ATen.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/quantized/PackedParams.h>
#include <torch/library.h>

namespace cleave {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

static Tensor emptyMeta(at::IntArrayRef sizes, const Tensor &like) {
  return at::empty(sizes, like.options());
}

static std::tuple<Tensor, Tensor, Tensor> nativeLayerNorm(const Tensor &input, c10::SymIntArrayRef normalized,
                                                          const OptionalTensor &, const OptionalTensor &,
                                                          double) {
  auto statistics = input.sizes().vec();
  std::fill(statistics.end() - normalized.size(), statistics.end(), 1);
  return {at::empty_like(input, at::MemoryFormat::Contiguous), emptyMeta(statistics, input),
          emptyMeta(statistics, input)};
}

static Tensor indexSelect(const Tensor &input, int64_t dim, const Tensor &index) {
  auto sizes = input.sizes().vec();
  if (!sizes.empty())
    sizes[at::maybe_wrap_dim(dim, input.dim())] = index.numel();
  return emptyMeta(sizes, input);
}

static Tensor whereSelf(const Tensor &condition, const Tensor &self, const Tensor &other) {
  auto dtype = at::result_type(self, other);
  // The iterator decides the strides, as in the CPU kernel; for that, operands may have different dtypes.
  Tensor result;
  auto iterator = at::TensorIteratorConfig()
                      .check_all_same_dtype(false)
                      .check_all_same_device(false)
                      .declare_static_dtype_and_device(dtype, at::kMeta)
                      .add_output(result)
                      .add_const_input(condition)
                      .add_const_input(self)
                      .add_const_input(other)
                      .build();
  return iterator.output();
}

static Tensor logSumExp(const Tensor &input, at::IntArrayRef dims, bool keepsDims) {
  const at::ScalarType type = input.scalar_type();
  return at::empty(at::sum(input, dims, keepsDims).sizes(),
                   input.options().dtype(c10::isIntegralType(type, /*includeBool=*/true)
                                             ? at::typeMetaToScalarType(at::get_default_dtype())
                                             : type));
}

static Tensor safeSoftmax(const Tensor &input, int64_t dim, std::optional<at::ScalarType> dtype) {
  // The CPU kernel's own steps, since they decide the strides: rows of -inf only become zeros.
  Tensor result = at::softmax(input, dim, dtype);
  Tensor isEmpty = at::all(at::eq(input, 0), dim, /*keepdim=*/true);
  return at::where(isEmpty, at::zeros({}, result.options()), result);
}

static Tensor convolution(const Tensor &input, const Tensor &weight, const OptionalTensor &,
                          c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                          c10::SymIntArrayRef dilation, bool isTransposed, c10::SymIntArrayRef outputPadding,
                          c10::SymInt groups) {
  auto at_ = [](c10::SymIntArrayRef list, int64_t i) { return list[list.size() == 1 ? 0 : i].expect_int(); };
  std::vector<int64_t> sizes{input.size(0),
                             isTransposed ? weight.size(1) * groups.expect_int() : weight.size(0)};
  for (int64_t i = 0; i + 2 < input.dim(); ++i) {
    int64_t extent = at_(dilation, i) * (weight.size(i + 2) - 1);
    // Output sizes as in torch.nn.Conv2d and ConvTranspose2d.
    sizes.push_back(isTransposed
                        ? (input.size(i + 2) - 1) * at_(stride, i) - 2 * at_(padding, i) + extent +
                              at_(outputPadding, i) + 1
                        : (input.size(i + 2) + 2 * at_(padding, i) - extent - 1) / at_(stride, i) + 1);
  }
  // oneDNN gives results in the layout of its operands.
  bool isChannelsLast =
      input.dim() == 4 && (input.suggest_memory_format() == at::MemoryFormat::ChannelsLast ||
                           weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast);
  return at::empty(sizes, input.options(),
                   isChannelsLast ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
}

static std::tuple<Tensor, Tensor, Tensor> nativeBatchNorm(const Tensor &input, const OptionalTensor &,
                                                          const OptionalTensor &, const OptionalTensor &,
                                                          const OptionalTensor &, bool isTraining, double,
                                                          double) {
  // In evaluation, no statistics are saved for a backward pass.
  int64_t kept = isTraining ? input.size(1) : 0;
  return {at::empty_like(input, input.suggest_memory_format()), emptyMeta({kept}, input),
          emptyMeta({kept}, input)};
}

/// The result has the query's layout if the CPU runs its fused kernel
/// (aten/src/ATen/native/transformers/sdp_utils_cpp.cpp, use_flash_attention_cpp).
static bool isFusedOnCpu(const Tensor &query, const Tensor &key, const Tensor &value,
                         const OptionalTensor &mask, double dropout, bool isGrouped) {
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4 || dropout > 0)
    return false;
  bool hasHeads = isGrouped ? query.size(1) % key.size(1) == 0 : query.size(1) == key.size(1);
  if (query.size(3) != key.size(3) || query.size(3) != value.size(3) || !hasHeads ||
      query.size(0) != key.size(0))
    return false;
  if (query.stride(3) != 1 || key.stride(3) != 1 || value.stride(3) != 1 || query.size(2) == 0 ||
      key.size(2) == 0)
    return false;
  return !mask || mask->dim() == 2 || mask->dim() == 4;
}

static Tensor attention(const Tensor &query, const Tensor &key, const Tensor &value,
                        const OptionalTensor &mask, double dropout, bool, std::optional<double>,
                        bool isGrouped) {
  if (isFusedOnCpu(query, key, value, mask, dropout, isGrouped))
    return at::empty_like(query);
  auto sizes = query.sizes().vec();
  sizes.back() = value.size(-1);
  return emptyMeta(sizes, query);
}

/// The CPU kernel's steps: the two parts of each dimension, swapped and concatenated.
static Tensor roll(const Tensor &input, c10::SymIntArrayRef shifts, at::IntArrayRef dims) {
  if (input.numel() == 0)
    return input.clone(at::MemoryFormat::Preserve);
  if (dims.empty())
    return roll(input.flatten(), shifts, 0).view(input.sizes());
  Tensor rolled = input;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t size = input.size(dims[i]), start = (size - shifts[i].expect_int() % size) % size;
    rolled =
        at::cat({rolled.narrow(dims[i], start, size - start), rolled.narrow(dims[i], 0, start)}, dims[i]);
  }
  return rolled;
}

static Tensor encoderLayer(const Tensor &source, int64_t, int64_t, const Tensor &, const Tensor &,
                           const Tensor &, const Tensor &, bool, bool, double, const Tensor &, const Tensor &,
                           const Tensor &, const Tensor &, const Tensor &, const Tensor &, const Tensor &,
                           const Tensor &, const OptionalTensor &, std::optional<int64_t>) {
  return emptyMeta(source.sizes(), source);
}

/// A quantized tensor has the type of its integers, since the meta device has no quantized tensors.
static Tensor quantizePerTensor(const Tensor &input, double, int64_t, at::ScalarType dtype) {
  return at::empty_like(input, input.options().dtype(c10::toUnderlying(dtype)));
}
static Tensor dequantize(const Tensor &input) {
  return at::empty_like(input, input.options().dtype(at::kFloat));
}
static Tensor quantizedTensor(const Tensor &integers, double, int64_t) { return at::empty_like(integers); }
static Tensor quantizedRows(const Tensor &integers, const Tensor &, const Tensor &, int64_t) {
  return at::empty_like(integers);
}

namespace {
/// Packed weights of which only the shape is known.
class ShapeOfLinear : public LinearPackedParamsBase {
public:
  explicit ShapeOfLinear(Tensor weight, OptionalTensor addend)
      : weight(std::move(weight)), addend(std::move(addend)) {}

  Tensor apply(Tensor input, double, int64_t) override { return result(input, input.scalar_type()); }
  Tensor apply_relu(Tensor input, double, int64_t) override { return result(input, input.scalar_type()); }
  Tensor apply_dynamic(Tensor input, bool) override { return result(input, at::kFloat); }
  Tensor apply_dynamic_relu(Tensor input, bool) override { return result(input, at::kFloat); }
  std::tuple<Tensor, OptionalTensor> unpack() override { return {weight, addend}; }
  OptionalTensor bias() override { return addend; }

private:
  Tensor result(const Tensor &input, at::ScalarType dtype) const {
    TORCH_CHECK(input.size(-1) == weight.size(1), "a weight for ", weight.size(1), " features meets ",
                input.size(-1));
    auto sizes = input.sizes().vec();
    sizes.back() = weight.size(0);
    return at::empty(sizes, input.options().dtype(dtype));
  }
  const Tensor weight;
  const OptionalTensor addend;
};
} // namespace

using PackedLinear = c10::intrusive_ptr<LinearPackedParamsBase>;

static PackedLinear packLinear(Tensor weight, OptionalTensor bias) {
  return c10::make_intrusive<ShapeOfLinear>(std::move(weight), std::move(bias));
}
static Tensor quantizedLinear(Tensor input, const PackedLinear &weight, double scale, int64_t zeroPoint) {
  return weight->apply(std::move(input), scale, zeroPoint);
}
static Tensor dynamicLinear(Tensor input, const PackedLinear &weight, bool reducesRange) {
  return weight->apply_dynamic(std::move(input), reducesRange);
}

static void registerQuantized(torch::Library &aten) {
  aten.impl("quantize_per_tensor", quantizePerTensor);
  aten.impl("dequantize.self", dequantize);
  aten.impl("_make_per_tensor_quantized_tensor", quantizedTensor);
  aten.impl("_make_per_channel_quantized_tensor", quantizedRows);
  static torch::Library quantized(torch::Library::IMPL, "quantized", c10::DispatchKey::Meta, __FILE__,
                                  __LINE__);
  quantized.impl("linear_prepack", packLinear);
  quantized.impl("linear", quantizedLinear);
  quantized.impl("linear_relu", quantizedLinear);
  quantized.impl("linear_dynamic", dynamicLinear);
  quantized.impl("linear_relu_dynamic", dynamicLinear);
}

const c10::KernelFunction *findCompositeKernel(llvm::StringRef irName) {
  static const CompositeKernels kernels = [] {
    CompositeKernels made;
    made["aten.scaled_dot_product_attention"] =
        c10::KernelFunction::makeFromUnboxedRuntimeFunction(attention);
    addRecurrent(made);
    return made;
  }();
  auto kernel = kernels.find(irName);
  return kernel == kernels.end() ? nullptr : &kernel->second;
}

void registerMetaKernels() {
  static torch::Library library = [] {
    torch::Library kernels(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    kernels.impl("native_layer_norm", nativeLayerNorm);
    kernels.impl("index_select", indexSelect);
    kernels.impl("where.self", whereSelf);
    kernels.impl("logsumexp", logSumExp);
    kernels.impl("_safe_softmax", safeSoftmax);
    kernels.impl("convolution_overrideable", convolution);
    kernels.impl("native_batch_norm", nativeBatchNorm);
    kernels.impl("roll", roll);
    kernels.impl("_transformer_encoder_layer_fwd", encoderLayer);
    registerBackward(kernels);
    registerQuantized(kernels);
    return kernels;
  }();
}

} // namespace cleave
