//===- SchemaCalls.cpp - Calls by what a schema says ----------------------===//
#include "tests/operators/SchemaCalls.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include <ATen/core/class_type.h>
#include <ATen/core/jit_type.h>

namespace cleave::operators {

using c10::TypeKind;
using llvm::StringRef;

static const std::vector<int64_t> kShapes[] = {
    {},     {1},       {3},       {8},          {4, 4},          {2, 3},
    {3, 2}, {1, 5},    {2, 3, 4}, {1, 4, 4},    {2, 4, 6, 6},    {1, 3, 8, 8},
    {8, 8}, {4, 8, 2}, {0, 3},    {2, 2, 3, 5}, {1, 2, 4, 4, 4}, {6}};
static constexpr c10::ScalarType kUsualTypes[] = {c10::kFloat, c10::kFloat,       c10::kFloat, c10::kLong,
                                                  c10::kLong,  c10::kBool,        c10::kByte,  c10::kBFloat16,
                                                  c10::kInt,   c10::kComplexFloat};
static const char *const kWords[] = {
    "mean",  "sum",   "none",  "linear",   "bilinear", "nearest",   "constant",  "reflect",
    "tanh",  "ij",    "L",     "xy",       "floor",    "trunc",     "replicate", "a",
    "valid", "same",  "right", "complete", "i->i",     "ij,jk->ik", "max",       "{} {}",
    "%s %d", "x y z", "12",    "1.5",      "cpu",      "",          "amax",      "lower"};

template <typename T> static const T &pick(llvm::ArrayRef<T> items, Random &random) {
  return items[below(random, items.size())];
}

//===- Types --------------------------------------------------------------===//

/// Kinds of values that constants and instructions of a plan can make, and None for any optional.
static bool hasValues(const c10::TypePtr &type) {
  switch (type->kind()) {
  case TypeKind::TensorType:
  case TypeKind::IntType:
  case TypeKind::FloatType:
  case TypeKind::ComplexType:
  case TypeKind::BoolType:
  case TypeKind::StringType:
  case TypeKind::DeviceObjType:
  case TypeKind::NumberType:
  case TypeKind::AnyType:
  case TypeKind::VarType:
  case TypeKind::OptionalType:
  case TypeKind::ClassType:
    return true;
  case TypeKind::ListType:
  case TypeKind::DictType:
  case TypeKind::TupleType:
    return llvm::all_of(type->containedTypes(), hasValues);
  default:
    return false;
  }
}

static bool writesTensors(const c10::Argument &argument) {
  if (!argument.alias_info() || !argument.alias_info()->isWrite())
    return false;
  c10::TypePtr type = argument.type();
  while (type->kind() == TypeKind::ListType || type->kind() == TypeKind::OptionalType)
    type = type->containedType(0);
  return type->kind() == TypeKind::TensorType;
}

bool isCallable(const c10::FunctionSchema &schema) {
  return llvm::all_of(schema.arguments(), [](const c10::Argument &argument) {
    return !writesTensors(argument) && hasValues(argument.type());
  });
}

//===- Values -------------------------------------------------------------===//

static CallValue integer(int64_t number) { return {ValueKind::Int, number}; }

static CallValue tensorOf(std::vector<int64_t> sizes, c10::ScalarType dtype, Random &random) {
  CallValue value{ValueKind::Tensor};
  value.tensor.sizes = std::move(sizes);
  value.tensor.dtype = dtype;
  if (c10::isIntegralType(dtype, true) || once(random, 4)) {
    value.tensor.fill = TensorSpec::Fill::Random;
    value.tensor.low = 0;
    value.tensor.high = once(random, 3) ? 0 : 2;
  }
  return value;
}

CallValue randomTensor(Random &random) {
  return tensorOf(pick<std::vector<int64_t>>(kShapes, random), pick<c10::ScalarType>(kUsualTypes, random),
                  random);
}

CallValue randomValue(Random &random) {
  switch (below(random, 10)) {
  case 0:
    return {ValueKind::None};
  case 1:
    return {ValueKind::Bool, int64_t(below(random, 2))};
  case 2:
    return integer(int64_t(below(random, 6)) - 2);
  case 3:
    return {ValueKind::Float, 0, double(below(random, 7)) / 2 - 1};
  case 4:
    return {ValueKind::String, 0, 0, 0, pick<const char *>(kWords, random)};
  case 5:
    return {ValueKind::List, 0, 0, 0, "int", {}, {integer(1), integer(int64_t(below(random, 4)))}};
  case 6:
    return {ValueKind::List, 0, 0, 0, "Tensor", {}, {randomTensor(random), randomTensor(random)}};
  case 7:
    return {ValueKind::Tuple, 0, 0, 0, "", {}, {integer(1), randomTensor(random)}};
  case 8:
    return {ValueKind::Complex, 0, 1, 2};
  default:
    return randomTensor(random);
  }
}

namespace {
/// One call: arguments that go together have shapes and types in common.
class CallMaker {
public:
  explicit CallMaker(Random &random)
      : random(random), shape(pick<std::vector<int64_t>>(kShapes, random)),
        dtype(pick<c10::ScalarType>(kUsualTypes, random)), variable(below(random, 4)) {}
  std::optional<CallValue> make(const c10::TypePtr &type, StringRef name, std::optional<int32_t> count);

private:
  CallValue tensor(StringRef name);
  CallValue number(StringRef name);
  std::optional<CallValue> list(const c10::TypePtr &element, StringRef name, std::optional<int32_t> count);
  std::optional<CallValue> packed(const c10::TypePtr &type);
  std::optional<CallValue> dict(const c10::TypePtr &type);
  CallValue quantized(std::vector<int64_t> sizes, const char *dtype);
  CallValue variableValue();
  /// What values of a list or dict say of their type.
  static std::string elementName(const c10::TypePtr &type, uint64_t variable);

  Random &random;
  const std::vector<int64_t> shape;
  const c10::ScalarType dtype;
  /// Which type a type variable `t` stands for.
  const uint64_t variable;
};
} // namespace

static constexpr const char *kVariableTypes[] = {"int", "Tensor", "str", "float"};

std::string CallMaker::elementName(const c10::TypePtr &type, uint64_t variable) {
  if (type->kind() == TypeKind::VarType)
    return kVariableTypes[variable];
  if (type->kind() == TypeKind::AnyType)
    return "int";
  if (type->kind() == TypeKind::NumberType)
    return "Scalar";
  std::string text = type->str();
  return StringRef(text).starts_with("Optional[Tensor") ? "Tensor?" : text == "Dynamic" ? "int" : text;
}

CallValue CallMaker::variableValue() {
  switch (variable) {
  case 0:
    return integer(int64_t(below(random, 5)));
  case 1:
    return randomTensor(random);
  case 2:
    return {ValueKind::String, 0, 0, 0, pick<const char *>(kWords, random)};
  default:
    return {ValueKind::Float, 0, double(below(random, 5))};
  }
}

CallValue CallMaker::quantized(std::vector<int64_t> sizes, const char *dtype) {
  CallValue value{ValueKind::Call, 0, 0, 0, "aten::quantize_per_tensor"};
  value.items = {tensorOf(std::move(sizes), c10::kFloat, random),
                 {ValueKind::Float, 0, 0.1},
                 integer(0),
                 integer(StringRef(dtype) == "qint8" ? 12 : 13)};
  return value;
}

CallValue CallMaker::tensor(StringRef name) {
  if (name.starts_with("q") && !once(random, 4))
    return quantized(shape, "quint8");
  if ((name.contains("index") || name.contains("indices") || name.contains("offset") ||
       name.contains("target")) &&
      !once(random, 4))
    return tensorOf(once(random, 2) ? shape : std::vector<int64_t>{3}, c10::kLong, random);
  if ((name.contains("weight") || name.contains("bias") || name.contains("running") ||
       name.contains("mean") || name.contains("var") || name.contains("scale") ||
       name.contains("zero_point")) &&
      once(random, 2))
    return tensorOf({shape.size() > 1 ? shape[1] : 3}, name.contains("zero_point") ? c10::kInt : c10::kFloat,
                    random);
  if (name.contains("mask") && once(random, 2))
    return tensorOf(shape, c10::kBool, random);
  return once(random, 4) ? randomTensor(random) : tensorOf(shape, dtype, random);
}

CallValue CallMaker::number(StringRef name) {
  if (name == "dtype" || name == "out_dtype")
    return integer(int64_t(below(random, 16)));
  if (name == "layout" || name == "memory_format")
    return integer(0);
  if (name.contains("dim") && !shape.empty())
    return integer(int64_t(below(random, shape.size())) - int64_t(below(random, 2)));
  static const int64_t usual[] = {1, 1, 1, 0, 2, 3, -1, 4, 8};
  return integer(pick<int64_t>(usual, random));
}

std::optional<CallValue> CallMaker::list(const c10::TypePtr &element, StringRef name,
                                         std::optional<int32_t> count) {
  CallValue value{ValueKind::List, 0, 0, 0, elementName(element, variable)};
  size_t length = count ? size_t(*count) : 1 + below(random, 3);
  if (!count && element->kind() == TypeKind::IntType && once(random, 2))
    length = shape.size();
  if (name.contains("size") && element->kind() == TypeKind::IntType && once(random, 2)) {
    for (int64_t size : shape)
      value.items.push_back(integer(size));
    return value;
  }
  for (size_t i = 0; i < length; ++i) {
    std::optional<CallValue> item =
        element->kind() == TypeKind::AnyType ? integer(1) : make(element, name, std::nullopt);
    if (!item)
      return std::nullopt;
    value.items.push_back(std::move(*item));
  }
  return value;
}

std::optional<CallValue> CallMaker::dict(const c10::TypePtr &type) {
  const c10::TypePtr &key = type->containedTypes()[0], &element = type->containedTypes()[1];
  CallValue value{ValueKind::Dict, 0, 0, 0,
                  elementName(key, variable) + "," + elementName(element, variable)};
  for (int i = 0; i < 2; ++i)
    for (const c10::TypePtr &part : {key, element}) {
      std::optional<CallValue> item = make(part, "", std::nullopt);
      if (!item)
        return std::nullopt;
      value.items.push_back(std::move(*item));
    }
  return value;
}

/// Weights as quantized layers pack them.
std::optional<CallValue> CallMaker::packed(const c10::TypePtr &type) {
  const std::string text = type->str();
  StringRef name = StringRef(text).rsplit('.').second;
  CallValue value{ValueKind::Call}, bias = tensorOf({4}, c10::kFloat, random);
  auto ints = [](size_t count, int64_t number) {
    return CallValue{ValueKind::List, 0, 0, 0, "int", {}, std::vector<CallValue>(count, integer(number))};
  };
  if (name == "LinearPackedParamsBase") {
    value.text = "quantized::linear_prepack";
    value.items = {quantized({4, shape.empty() ? 3 : shape.back()}, "qint8"), bias};
  } else if (name == "Conv2dPackedParamsBase" || name == "Conv3dPackedParamsBase") {
    const size_t dims = name == "Conv2dPackedParamsBase" ? 2 : 3;
    value.text = dims == 2 ? "quantized::conv2d_prepack" : "quantized::conv3d_prepack";
    std::vector<int64_t> sizes(dims + 2, 2);
    sizes[0] = 4, sizes[1] = shape.size() > 1 ? shape[1] : 3;
    value.items = {quantized(sizes, "qint8"), bias, ints(dims, 1), ints(dims, 0), ints(dims, 1), integer(1)};
  } else if (name == "EmbeddingPackedParamsBase") {
    value.text = "quantized::embedding_bag_prepack";
    value.items = {CallValue{ValueKind::Call,
                             0,
                             0,
                             0,
                             "aten::quantize_per_channel",
                             {},
                             {tensorOf({10, 12}, c10::kFloat, random), tensorOf({10}, c10::kFloat, random),
                              tensorOf({10}, c10::kFloat, random), integer(0), integer(13)}}};
    value.items[0].items[1].tensor.fill = TensorSpec::Fill::Random;
    value.items[0].items[1].tensor.low = 0.1;
  } else {
    return std::nullopt;
  }
  return value;
}

std::optional<CallValue> CallMaker::make(const c10::TypePtr &type, StringRef name,
                                         std::optional<int32_t> count) {
  switch (type->kind()) {
  case TypeKind::TensorType:
    return tensor(name);
  case TypeKind::IntType:
    return number(name);
  case TypeKind::FloatType:
    return CallValue{ValueKind::Float, 0, double(below(random, 9)) / 4};
  case TypeKind::ComplexType:
    return CallValue{ValueKind::Complex, 0, 1, 0.5};
  case TypeKind::BoolType:
    return CallValue{ValueKind::Bool, int64_t(below(random, 2))};
  case TypeKind::StringType:
    return CallValue{ValueKind::String, 0, 0, 0, pick<const char *>(kWords, random)};
  case TypeKind::DeviceObjType:
    return CallValue{ValueKind::Device, 0, 0, 0, "cpu"};
  case TypeKind::NumberType:
    return once(random, 2) ? number(name) : CallValue{ValueKind::Float, 0, double(below(random, 9)) / 4};
  case TypeKind::AnyType:
    return randomValue(random);
  case TypeKind::VarType:
    return variableValue();
  case TypeKind::OptionalType:
    if (once(random, 2) || !hasValues(type->containedType(0)))
      return CallValue{ValueKind::None};
    return make(type->containedType(0), name, count);
  case TypeKind::ListType:
    return list(type->containedType(0), name, count);
  case TypeKind::DictType:
    return dict(type);
  case TypeKind::TupleType: {
    CallValue value{ValueKind::Tuple};
    for (const c10::TypePtr &part : type->containedTypes())
      if (auto item = make(part, name, std::nullopt))
        value.items.push_back(std::move(*item));
      else
        return std::nullopt;
    return value;
  }
  case TypeKind::ClassType:
    return packed(type);
  default:
    return std::nullopt;
  }
}

std::optional<Call> randomCall(const std::string &op, const c10::FunctionSchema &schema, Random &random) {
  CallMaker maker(random);
  Call call{op, {}};
  for (const c10::Argument &argument : schema.arguments()) {
    std::optional<CallValue> value = maker.make(argument.type(), argument.name(), argument.N());
    if (!value)
      return std::nullopt;
    call.arguments.push_back(std::move(*value));
  }
  if (schema.is_vararg())
    for (uint64_t i = 1 + below(random, 3); i > 0; --i)
      call.arguments.push_back(randomValue(random));
  return call;
}

} // namespace cleave::operators
