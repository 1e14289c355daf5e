//===- Materialize.cpp - The values of a call -----------------------------===//
#include "tests/operators/Materialize.h"
#include "codegen/plan/Plan.h"
#include "runtime/base/Values.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include <ATen/ATen.h>
#include <ATen/core/List.h>
#include <cmath>
#include <limits>
#include <random>

namespace cleave::operators {

using c10::IValue;

llvm::ArrayRef<int64_t> extremeIntegers() {
  using Limits = std::numeric_limits<int64_t>;
  static const int64_t numbers[] = {-1,
                                    0,
                                    1,
                                    2,
                                    -2,
                                    3,
                                    -3,
                                    7,
                                    8,
                                    15,
                                    16,
                                    17,
                                    31,
                                    32,
                                    33,
                                    63,
                                    64,
                                    65,
                                    100,
                                    127,
                                    128,
                                    255,
                                    256,
                                    257,
                                    1023,
                                    1024,
                                    4097,
                                    65535,
                                    65536,
                                    -65,
                                    -128,
                                    -129,
                                    -32769,
                                    1 << 20,
                                    0x7fffffff,
                                    0x80000000,
                                    0xffffffff,
                                    0x100000000,
                                    1l << 40,
                                    -0x80000000l,
                                    -0x80000001l,
                                    1l << 53,
                                    1l << 62,
                                    -(1l << 62),
                                    Limits::max(),
                                    Limits::max() - 1,
                                    Limits::min(),
                                    Limits::min() + 1};
  return numbers;
}

llvm::ArrayRef<double> extremeReals() {
  using Limits = std::numeric_limits<double>;
  static const double numbers[] = {0,
                                   -0.0,
                                   1,
                                   -1,
                                   0.5,
                                   1e-30,
                                   1e-19,
                                   1e-300,
                                   1e30,
                                   -1e30,
                                   1e308,
                                   2147483648.0,
                                   9.3e18,
                                   -9.3e18,
                                   Limits::infinity(),
                                   -Limits::infinity(),
                                   Limits::quiet_NaN(),
                                   Limits::denorm_min()};
  return numbers;
}

//===- Tensors ------------------------------------------------------------===//

namespace {
/// Writes the elements of a contiguous tensor of one dimension.
class Filler {
public:
  Filler(const TensorSpec &spec, uint64_t seed) : spec(spec), random(seed) {}
  template <typename T> void fill(at::Tensor &flat) {
    T *data = flat.mutable_data_ptr<T>();
    const int64_t count = flat.numel();
    for (int64_t i = 0; i < count; ++i)
      data[i] = element<T>(i);
    for (int64_t i = 0; i < spec.extremes && count; ++i)
      data[random() % count] = extreme<T>();
  }

private:
  template <typename T> T element(int64_t index) {
    if (spec.fill == TensorSpec::Fill::Listed && !spec.integers.empty())
      return convert<T>(spec.integers[index % spec.integers.size()]);
    if (spec.fill == TensorSpec::Fill::Listed && !spec.reals.empty())
      return convert<T>(spec.reals[index % spec.reals.size()]);
    if (spec.fill == TensorSpec::Fill::Random)
      return convert<T>(spec.low + (spec.high - spec.low) * (double(random() >> 11) * 0x1p-53));
    return convert<T>(normal(random));
  }
  template <typename T> T extreme() {
    if constexpr (std::is_integral_v<T>)
      return convert<T>(extremeIntegers()[random() % extremeIntegers().size()]);
    else
      return convert<T>(extremeReals()[random() % extremeReals().size()]);
  }
  template <typename T, typename From> static T convert(From value) {
    if constexpr (std::is_same_v<T, bool>)
      return value > From(0);
    else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<From>)
      return static_cast<T>(std::abs(value) < 9e18 ? static_cast<int64_t>(std::nearbyint(value)) : 0);
    else if constexpr (c10::is_complex<T>::value)
      return T(static_cast<typename T::value_type>(value), static_cast<typename T::value_type>(0.5));
    else
      return static_cast<T>(value);
  }

  const TensorSpec &spec;
  std::mt19937_64 random;
  std::normal_distribution<double> normal;
};
} // namespace

/// Elements from the first to the last that the strides reach, and what lies before; more than allowed where
/// that is too many.
static int64_t storageSize(const TensorSpec &spec, llvm::ArrayRef<int64_t> strides) {
  int64_t last = spec.offset;
  for (auto [size, stride] : llvm::zip(spec.sizes, strides)) {
    if (size == 0)
      return spec.offset;
    int64_t reach;
    if (__builtin_mul_overflow(size - 1, stride, &reach) || __builtin_add_overflow(last, reach, &last))
      return kMaxElements + 1;
  }
  return last + 1;
}

static std::vector<int64_t> contiguousStrides(llvm::ArrayRef<int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    if (__builtin_mul_overflow(stride, std::max<int64_t>(sizes[i], 1), &stride))
      stride = kMaxElements + 1;
  }
  return strides;
}

static at::Tensor materializeTensor(const TensorSpec &spec, uint64_t seed) {
  std::vector<int64_t> strides = spec.strides.empty() ? contiguousStrides(spec.sizes) : spec.strides;
  TORCH_CHECK(strides.size() == spec.sizes.size() && spec.offset >= 0 &&
                  llvm::all_of(spec.sizes, [](int64_t size) { return size >= 0; }) &&
                  llvm::all_of(strides, [](int64_t stride) { return stride >= 0; }),
              "no tensor is like that");
  const int64_t elements = storageSize(spec, strides);
  TORCH_CHECK(elements <= kMaxElements, "a storage of ", elements, " elements");
  at::Tensor flat = at::empty({elements}, spec.dtype);
  Filler filler(spec, seed);
  switch (spec.dtype) {
#define FILL(type, name)                                                                                     \
  case c10::ScalarType::name:                                                                                \
    filler.fill<type>(flat);                                                                                 \
    break;
    AT_FORALL_SCALAR_TYPES_AND3(Bool, Half, BFloat16, FILL)
    FILL(c10::complex<float>, ComplexFloat)
    FILL(c10::complex<double>, ComplexDouble)
#undef FILL
  default:
    TORCH_CHECK(false, "no values of this type");
  }
  return flat.as_strided(spec.sizes, strides, spec.offset);
}

//===- Other values -------------------------------------------------------===//

runtime::ResolvedOperator *resolveOperator(const std::string &name) {
  static auto &plans =
      *new llvm::StringMap<std::pair<std::unique_ptr<plan::Plan>, std::unique_ptr<runtime::Operators>>>;
  auto &[plan, operators] = plans[name];
  if (!plan) {
    plan = std::make_unique<plan::Plan>();
    plan->operators = {name};
    operators = std::make_unique<runtime::Operators>(*plan);
  }
  auto found = operators->resolve(0);
  if (found)
    return *found;
  llvm::consumeError(found.takeError());
  return nullptr;
}

static IValue call(const CallValue &value, uint64_t seed) {
  runtime::ResolvedOperator *found = resolveOperator(value.text);
  TORCH_CHECK(found, "there is no operator ", value.text);
  torch::jit::Stack stack;
  for (const CallValue &item : value.items)
    stack.push_back(materialize(item, seed++));
  found->onCpu(stack);
  return stack.at(value.integer);
}

static IValue makeList(const CallValue &value, uint64_t seed) {
  c10::impl::GenericList list(llvm::cantFail(runtime::parseType(value.text)));
  for (const CallValue &item : value.items) {
    list.push_back(materialize(item, seed++));
    runtime::checkElement(list.get(list.size() - 1), *list.elementType());
  }
  return list;
}

static IValue makeTuple(const CallValue &value, uint64_t seed) {
  std::vector<IValue> items;
  for (const CallValue &item : value.items)
    items.push_back(materialize(item, seed++));
  return c10::ivalue::Tuple::create(std::move(items));
}

static IValue makeDict(const CallValue &value, uint64_t seed) {
  auto [key, element] = llvm::cantFail(runtime::parseDictTypes(value.text));
  c10::impl::GenericDict dict(key, element);
  for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
    IValue first = materialize(value.items[i], seed + i),
           second = materialize(value.items[i + 1], seed + i + 1);
    runtime::checkElement(first, *key);
    runtime::checkElement(second, *element);
    dict.insert_or_assign(std::move(first), std::move(second));
  }
  return dict;
}

IValue materialize(const CallValue &value, uint64_t seed) {
  switch (value.kind) {
  case ValueKind::None:
    return {};
  case ValueKind::Undefined:
    return at::Tensor();
  case ValueKind::Bool:
    return value.integer != 0;
  case ValueKind::Int:
    return value.integer;
  case ValueKind::Float:
    return value.real;
  case ValueKind::Complex:
    return c10::complex<double>(value.real, value.imaginary);
  case ValueKind::String:
    return value.text;
  case ValueKind::Device:
    return c10::Device(value.text);
  case ValueKind::Tensor:
    return materializeTensor(value.tensor, seed);
  case ValueKind::List:
    return makeList(value, seed * 31 + 1);
  case ValueKind::Tuple:
    return makeTuple(value, seed * 31 + 1);
  case ValueKind::Dict:
    return makeDict(value, seed * 31 + 1);
  case ValueKind::Call:
    return call(value, seed * 31 + 1);
  }
  return {};
}

//===- Results ------------------------------------------------------------===//

/// Elements that a result is read up to; where it has more, it is one that is repeated by strides of zero.
static constexpr int64_t kMaxRead = int64_t(1) << 22;

static void checkInsideStorage(const at::Tensor &tensor) {
  TORCH_CHECK(tensor.layout() == at::kStrided && tensor.device().is_cpu() &&
                  !tensor.unsafeGetTensorImpl()->is_python_dispatch() && tensor.has_storage() &&
                  !tensor._is_zerotensor(),
              "OUTSIDE: the result is no dense tensor in main memory");
  if (tensor.numel() == 0)
    return;
  int64_t last = tensor.storage_offset();
  for (auto [size, stride] : llvm::zip(tensor.sizes(), tensor.strides())) {
    int64_t reach;
    TORCH_CHECK(stride >= 0 && !__builtin_mul_overflow(size - 1, stride, &reach) &&
                    !__builtin_add_overflow(last, reach, &last),
                "OUTSIDE: the result has a negative stride, or reaches beyond 64 bits");
  }
  TORCH_CHECK(tensor.storage_offset() >= 0 &&
                  (uint64_t(last) + 1) * tensor.itemsize() <= tensor.storage().nbytes(),
              "OUTSIDE: the result is larger than its storage");
}

static std::string digest(const at::Tensor &tensor) {
  if (!tensor.defined())
    return "undefined";
  checkInsideStorage(tensor);
  std::string text = toString(tensor.scalar_type());
  for (int64_t size : tensor.sizes())
    text += "," + std::to_string(size);
  if (tensor.numel() > kMaxRead)
    return text;
  if (tensor.is_quantized())
    text += toString(tensor.qscheme()) + std::to_string(at::sum(tensor.dequantize()).item().toDouble());
  at::Tensor plain =
      (tensor.is_quantized() ? tensor.int_repr() : tensor).resolve_conj().resolve_neg().contiguous();
  return text + "=" + std::string(static_cast<const char *>(plain.const_data_ptr()), plain.nbytes());
}

std::string digest(const IValue &value) {
  if (value.isTensor())
    return digest(value.toTensor());
  std::string text;
  if (value.isTuple())
    for (const IValue &item : value.toTupleRef().elements())
      text += digest(item) + ";";
  else if (value.isList())
    for (const IValue &item : value.toListRef())
      text += digest(item) + ";";
  else if (value.isGenericDict())
    for (const auto &entry : value.toGenericDict())
      text += digest(entry.key()) + ":" + digest(entry.value()) + ";";
  else if (value.isDouble())
    text = std::to_string(value.toDouble());
  else if (value.isInt())
    text = std::to_string(value.toInt());
  else if (value.isString())
    text = value.toStringRef();
  else
    text = value.tagKind();
  return text;
}

} // namespace cleave::operators
