//===- Mutator.cpp - Hostile calls from good ones -------------------------===//
#include "tests/operators/Mutator.h"
#include "tests/operators/Materialize.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace cleave::operators {

static constexpr c10::ScalarType kTypes[] = {
    c10::kFloat, c10::kDouble, c10::kHalf, c10::kBFloat16, c10::kLong,         c10::kInt,
    c10::kShort, c10::kChar,   c10::kByte, c10::kBool,     c10::kComplexFloat, c10::kComplexDouble};

static int64_t hostileInteger(int64_t old, bool mayBeLarge, Random &random) {
  if (!mayBeLarge || once(random, 3))
    return int64_t(uint64_t(old) + below(random, 5) - 2);
  return extremeIntegers()[below(random, extremeIntegers().size())];
}

static double hostileReal(Random &random) { return extremeReals()[below(random, extremeReals().size())]; }

//===- Tensors ------------------------------------------------------------===//

static int64_t newSize(int64_t old, Random &random) {
  switch (below(random, 8)) {
  case 0:
  case 1:
    return 0;
  case 2:
    return 1;
  case 3:
    return old + 1;
  case 4:
    return std::max<int64_t>(old - 1, 0);
  case 5:
    return old * 2;
  case 6:
    return old * 16 + 1;
  default:
    return int64_t(below(random, 70));
  }
}

static std::vector<int64_t> contiguous(llvm::ArrayRef<int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= std::clamp<int64_t>(sizes[i], 1, 4096))
    strides[i] = stride;
  return strides;
}

/// The same sizes, elsewhere in memory.
static void changeStrides(TensorSpec &tensor, Random &random) {
  if (tensor.strides.size() != tensor.sizes.size())
    tensor.strides = contiguous(tensor.sizes);
  switch (below(random, 5)) {
  case 0:
    std::shuffle(tensor.strides.begin(), tensor.strides.end(), random);
    break;
  case 1: // Gaps.
    for (int64_t &stride : tensor.strides)
      stride *= 2;
    break;
  case 2: // Elements that share memory.
    for (int64_t &stride : tensor.strides)
      stride = int64_t(below(random, 3));
    break;
  case 3: // Transposed: the first dimension is innermost.
    std::reverse(tensor.strides.begin(), tensor.strides.end());
    break;
  default:
    tensor.offset = 1 + int64_t(below(random, 9));
  }
}

static void changeSizes(TensorSpec &tensor, bool mayBeLarge, Random &random) {
  tensor.strides.clear();
  std::vector<int64_t> &sizes = tensor.sizes;
  const uint64_t choice = below(random, 8);
  if (sizes.empty() || choice == 0) {
    sizes.insert(sizes.begin() + int64_t(below(random, sizes.size() + 1)),
                 once(random, 2) ? 1 : int64_t(below(random, 5)));
  } else if (choice == 1) {
    sizes.erase(sizes.begin() + int64_t(below(random, sizes.size())));
  } else if (choice == 2 && mayBeLarge && once(random, 3)) {
    // As `expand` makes them: as large as wanted, over little memory.
    static const int64_t large[] = {1 << 16, int64_t(1) << 31, int64_t(1) << 32, int64_t(1) << 40,
                                    int64_t(1) << 62};
    const size_t dim = below(random, sizes.size());
    tensor.strides = contiguous(sizes);
    sizes[dim] = large[below(random, std::size(large))];
    tensor.strides[dim] = 0;
  } else if (choice == 3) {
    std::shuffle(sizes.begin(), sizes.end(), random);
  } else {
    int64_t &size = sizes[below(random, sizes.size())];
    size = newSize(size, random);
  }
}

static void changeContents(TensorSpec &tensor, Random &random) {
  switch (below(random, 6)) {
  case 0:
    tensor.fill = TensorSpec::Fill::Listed;
    tensor.integers = {hostileInteger(1, true, random)};
    tensor.reals = {hostileReal(random)};
    break;
  case 1:
    tensor.fill = TensorSpec::Fill::Random;
    tensor.low = -2, tensor.high = 2;
    break;
  case 2:
    tensor.fill = TensorSpec::Fill::Random;
    tensor.low = 0, tensor.high = double(below(random, 300));
    break;
  case 3:
    if (!tensor.integers.empty())
      tensor.integers[below(random, tensor.integers.size())] = hostileInteger(1, true, random);
    else if (!tensor.reals.empty())
      tensor.reals[below(random, tensor.reals.size())] = hostileReal(random);
    else
      tensor.extremes = 1;
    break;
  default:
    tensor.extremes = 1 + int64_t(below(random, 4));
  }
}

static CallValue quantized(CallValue tensor, Random &random) {
  tensor.tensor.dtype = c10::kFloat;
  static const int64_t types[] = {12, 13, 14};
  return {ValueKind::Call,
          0,
          0,
          0,
          "aten::quantize_per_tensor",
          {},
          {std::move(tensor),
           {ValueKind::Float, 0, 0.1},
           {ValueKind::Int, int64_t(below(random, 3))},
           {ValueKind::Int, types[below(random, std::size(types))]}}};
}

static void changeTensor(CallValue &value, MutationOptions options, Random &random) {
  TensorSpec &tensor = value.tensor;
  const uint64_t choice = below(random, options.gently ? 8 : 20);
  if (choice < 3)
    changeContents(tensor, random);
  else if (choice < 6)
    changeStrides(tensor, random);
  else if (choice < 8)
    tensor.offset = int64_t(below(random, 3));
  else if (choice < 15)
    changeSizes(tensor, options.mayBeLarge, random);
  else if (choice < 18)
    tensor.dtype = kTypes[below(random, std::size(kTypes))];
  else if (choice == 18 && once(random, 2))
    value = quantized(value, random);
  else
    value = {once(random, 2) ? ValueKind::Undefined : ValueKind::None};
}

//===- Other values -------------------------------------------------------===//

static void changeList(CallValue &value, Random &random) {
  if (value.items.empty() || once(random, 3))
    value.items.push_back(value.items.empty() ? CallValue{ValueKind::Int, 1} : value.items.back());
  else if (once(random, 3))
    value.items.clear();
  else if (once(random, 2))
    value.items.pop_back();
  else
    value.items[below(random, value.items.size())] = randomValue(random);
}

static void changeText(CallValue &value, Random &random) {
  static const char *const devices[] = {"cpu",    "meta",  "cuda",          "cuda:3",
                                        "mkldnn", "xla:0", "privateuseone", "cpu:127"};
  if (value.kind == ValueKind::Device)
    value.text = devices[below(random, std::size(devices))];
  else if (once(random, 3))
    value.text = std::string(below(random, 400), '{');
  else if (once(random, 2))
    value.text = "%99999999d {} %s\n\xff";
  else
    value.text.clear();
}

/// A value for an argument that may be left out, such as a scale or the scales of each dimension.
static CallValue optionalValue(Random &random) {
  const auto real = [&] { return CallValue{ValueKind::Float, 0, hostileReal(random)}; };
  switch (below(random, 3)) {
  case 0:
    return real();
  case 1: {
    CallValue list{ValueKind::List, 0, 0, 0, "float"};
    for (uint64_t left = 1 + below(random, 3); left > 0; --left)
      list.items.push_back(real());
    return list;
  }
  default:
    return randomValue(random);
  }
}

static void change(CallValue &value, MutationOptions options, Random &random) {
  const bool gently = options.gently;
  if (!gently && once(random, 30)) {
    value = randomValue(random);
    return;
  }
  switch (value.kind) {
  case ValueKind::Tensor:
    return changeTensor(value, options, random);
  case ValueKind::Bool:
    value.integer ^= 1;
    return;
  case ValueKind::Int:
    value.integer = gently ? value.integer : hostileInteger(value.integer, options.mayBeLarge, random);
    return;
  case ValueKind::Float:
    value.real = hostileReal(random);
    return;
  case ValueKind::Complex:
    value.real = hostileReal(random), value.imaginary = hostileReal(random);
    return;
  case ValueKind::String:
  case ValueKind::Device:
    return gently ? void() : changeText(value, random);
  case ValueKind::List:
  case ValueKind::Tuple:
    return gently ? void() : changeList(value, random);
  case ValueKind::None:
    if (!gently)
      value = optionalValue(random);
    return;
  case ValueKind::Undefined:
  case ValueKind::Dict:
  case ValueKind::Call:
    return;
  }
}

/// All values of the call, those of lists and the like behind what holds them.
static void collect(CallValue &value, std::vector<CallValue *> &found) {
  found.push_back(&value);
  for (CallValue &item : value.items)
    collect(item, found);
}

/// Gives all tensors and numbers of the call values at the borders of one type: what does harm is often a
/// pair of them, such as the least integer and -1.
static void changeToBorders(Call &call, Random &random) {
  static constexpr c10::ScalarType types[] = {c10::kLong, c10::kInt, c10::kByte, c10::kFloat};
  static constexpr int64_t borders[] = {-1, -1, 0, INT64_MIN, INT32_MIN, INT64_MAX, INT32_MAX};
  const c10::ScalarType type = types[below(random, std::size(types))];
  std::vector<CallValue *> values;
  for (CallValue &argument : call.arguments)
    collect(argument, values);
  for (CallValue *value : values) {
    const int64_t border = borders[below(random, std::size(borders))];
    if (value->kind == ValueKind::Tensor && !once(random, 4)) {
      value->tensor.dtype = type;
      value->tensor.fill = TensorSpec::Fill::Listed;
      value->tensor.integers = {border};
      value->tensor.reals = {double(border)};
    } else if (value->kind == ValueKind::Int && once(random, 2)) {
      value->integer = border;
    }
  }
}

/// Has all lists of numbers hold so many that a kernel which calls itself for each has no stack left.
static void lengthen(Call &call) {
  constexpr size_t kLong = 50'000;
  for (CallValue &argument : call.arguments)
    if (argument.kind == ValueKind::List && !argument.items.empty() &&
        argument.items[0].kind == ValueKind::Int)
      argument.items.resize(kLong, argument.items.back());
}

void mutate(Call &call, MutationOptions options, Random &random) {
  if (!options.gently && options.mayBeLarge && once(random, 60))
    return lengthen(call);
  if (!options.gently && options.mayBeLarge && once(random, 6))
    return changeToBorders(call, random);
  for (uint64_t changes = 1 + below(random, 3); changes > 0; --changes) {
    std::vector<CallValue *> values;
    for (CallValue &argument : call.arguments)
      collect(argument, values);
    if (values.empty())
      return;
    std::vector<CallValue *> tensors;
    llvm::copy_if(values, std::back_inserter(tensors),
                  [](CallValue *v) { return v->kind == ValueKind::Tensor; });
    // Tensors are what kernels read: one in two changes is of those.
    const auto &among = !tensors.empty() && (options.gently || once(random, 2)) ? tensors : values;
    change(*among[below(random, among.size())], options, random);
  }
}

} // namespace cleave::operators
