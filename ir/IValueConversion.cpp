//===- IValueConversion.cpp - IR values as TorchScript values -------------===//
#include "ir/IValueConversion.h"
#include "ir/DTypeCode.h"
#include "ir/Schemas.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"
#include <ATen/core/jit_type.h>
#include <mutex>

using namespace mlir;

namespace cleave {

std::optional<at::ScalarType> scalarTypeOf(Type element) {
  if (auto complex = dyn_cast<ComplexType>(element))
    return complex.getElementType().isF64() ? at::kComplexDouble : at::kComplexFloat;
  if (auto integer = dyn_cast<IntegerType>(element)) {
    switch (integer.getWidth()) {
    case 1:
      return at::kBool;
    case 8:
      return integer.isUnsigned() ? at::kByte : at::kChar;
    case 16:
      return at::kShort;
    case 32:
      return at::kInt;
    case 64:
      return at::kLong;
    }
    return std::nullopt;
  }
  if (element.isF16())
    return at::kHalf;
  if (element.isBF16())
    return at::kBFloat16;
  if (element.isF32())
    return at::kFloat;
  if (element.isF64())
    return at::kDouble;
  if (element.isFloat8E4M3FN())
    return at::kFloat8_e4m3fn;
  if (element.isFloat8E5M2())
    return at::kFloat8_e5m2;
  return std::nullopt;
}

std::optional<int64_t> dtypeCodeOf(Type element) {
  auto dtype = scalarTypeOf(element);
  return dtype ? std::optional(static_cast<int64_t>(*dtype)) : std::nullopt;
}

Type elementTypeOf(at::ScalarType dtype, MLIRContext *context) {
  Builder b(context);
  switch (dtype) {
  case at::kBool:
    return b.getI1Type();
  case at::kByte:
    return b.getIntegerType(8, /*isSigned=*/false);
  case at::kChar:
    return b.getIntegerType(8);
  case at::kShort:
    return b.getIntegerType(16);
  case at::kInt:
    return b.getI32Type();
  case at::kLong:
    return b.getI64Type();
  case at::kHalf:
    return b.getF16Type();
  case at::kBFloat16:
    return b.getBF16Type();
  case at::kFloat:
    return b.getF32Type();
  case at::kDouble:
    return b.getF64Type();
  case at::kComplexFloat:
    return ComplexType::get(b.getF32Type());
  case at::kComplexDouble:
    return ComplexType::get(b.getF64Type());
  case at::kFloat8_e4m3fn:
    return b.getFloat8E4M3FNType();
  case at::kFloat8_e5m2:
    return b.getFloat8E5M2Type();
  default:
    return {};
  }
}

c10::TypePtr torchTypeOf(Type type) {
  if (isTensorLike(type) && !isa<OptionalType>(type))
    return c10::TensorType::get();
  if (type.isInteger(1))
    return c10::BoolType::get();
  if (type.isInteger(64))
    return c10::IntType::get();
  if (type.isF64())
    return c10::FloatType::get();
  if (isa<ComplexType>(type))
    return c10::ComplexType::get();
  if (isa<NoneType>(type))
    return c10::NoneType::get();
  if (isa<StringType>(type))
    return c10::StringType::get();
  if (isa<NumberType>(type))
    return c10::NumberType::get();
  if (isa<DeviceType>(type))
    return c10::DeviceObjType::get();
  if (auto list = dyn_cast<ListType>(type))
    return c10::ListType::create(torchTypeOf(list.getElement()));
  if (auto optional = dyn_cast<OptionalType>(type)) {
    // libtorch knows an optional tensor by this one type.
    c10::TypePtr element = torchTypeOf(optional.getElement());
    return element->kind() == c10::TypeKind::TensorType ? c10::getTypePtr<std::optional<at::Tensor>>()
                                                        : c10::OptionalType::create(std::move(element));
  }
  if (auto dict = dyn_cast<DictType>(type))
    return c10::DictType::create(torchTypeOf(dict.getKey()), torchTypeOf(dict.getValue()));
  if (auto tuple = dyn_cast<TupleType>(type)) {
    std::vector<c10::TypePtr> items;
    for (Type item : tuple.getTypes())
      items.push_back(torchTypeOf(item));
    return c10::TupleType::create(std::move(items));
  }
  return c10::AnyType::get();
}

static c10::IValue toList(ArrayAttr items, Type type) {
  if (auto tuple = dyn_cast<TupleType>(type)) {
    std::vector<c10::IValue> values;
    for (auto [item, itemType] : llvm::zip(items, tuple.getTypes()))
      values.push_back(toIValue(item, itemType));
    return c10::ivalue::Tuple::create(std::move(values));
  }
  auto list = dyn_cast<ListType>(type);
  Type element = list ? list.getElement() : Type(AnyType::get(type.getContext()));
  c10::impl::GenericList values(torchTypeOf(element));
  for (Attribute item : items)
    values.push_back(toIValue(item, element));
  return values;
}

c10::IValue toIValue(Attribute value, Type type) {
  if (auto optional = dyn_cast<OptionalType>(type))
    type = optional.getElement();
  if (auto items = dyn_cast<ArrayAttr>(value))
    return toList(items, type);
  if (auto text = dyn_cast<StringAttr>(value))
    return isa<DeviceType>(type) ? c10::IValue(c10::Device(text.str())) : c10::IValue(text.str());
  if (auto number = dyn_cast<IntegerAttr>(value))
    return number.getType().isInteger(1) ? c10::IValue(number.getValue().getBoolValue())
                                         : c10::IValue(number.getInt());
  if (auto number = dyn_cast<FloatAttr>(value))
    return number.getValueAsDouble();
  return {};
}

Attribute toAttribute(const c10::IValue &value, MLIRContext *context) {
  Builder b(context);
  if (value.isNone())
    return b.getUnitAttr();
  if (value.isBool())
    return b.getBoolAttr(value.toBool());
  if (value.isInt())
    return b.getI64IntegerAttr(value.toInt());
  if (value.isDouble())
    return b.getF64FloatAttr(value.toDouble());
  if (value.isString())
    return b.getStringAttr(value.toStringRef());
  if (value.isDevice())
    return b.getStringAttr(value.toDevice().str());
  if (!value.isList() && !value.isTuple())
    return {};
  SmallVector<Attribute> items;
  auto values =
      value.isList() ? value.toListRef() : c10::ArrayRef<c10::IValue>(value.toTupleRef().elements());
  for (const c10::IValue &item : values)
    if (Attribute attribute = toAttribute(item, context))
      items.push_back(attribute);
    else
      return {};
  return b.getArrayAttr(items);
}

std::shared_ptr<torch::jit::Operator> findOperator(StringRef irName) {
  // Passes run on several functions in parallel.
  static std::mutex mutex;
  static llvm::StringMap<std::shared_ptr<torch::jit::Operator>> resolved;
  std::lock_guard lock(mutex);
  auto [entry, isNew] = resolved.try_emplace(irName);
  const OperatorSchema *schema = isNew ? findSchema(irName) : nullptr;
  if (schema) {
    auto [name, overload] = StringRef(schema->torchName).split('.');
    for (auto &candidate : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name.str())))
      if (candidate->schema().overload_name() == overload)
        entry->second = candidate;
  }
  return entry->second;
}

} // namespace cleave
