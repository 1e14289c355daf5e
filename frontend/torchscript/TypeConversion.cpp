//===- TypeConversion.cpp - TorchScript types as IR types -----------------===//
#include "frontend/torchscript/TypeConversion.h"
#include "ir/Cleave.h"
#include "ir/IValueConversion.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace cleave {

Type convertType(const c10::TypePtr &type, MLIRContext *context) {
  Builder b(context);
  auto convert = [&](const c10::TypePtr &inner) { return convertType(inner, context); };
  switch (type->kind()) {
  case c10::TypeKind::TensorType:
    return UnknownTensorType::get(context);
  case c10::TypeKind::IntType:
    return b.getI64Type();
  case c10::TypeKind::FloatType:
    return b.getF64Type();
  case c10::TypeKind::BoolType:
    return b.getI1Type();
  case c10::TypeKind::ComplexType:
    return ComplexType::get(b.getF64Type());
  case c10::TypeKind::NumberType:
    return NumberType::get(context);
  case c10::TypeKind::StringType:
    return StringType::get(context);
  case c10::TypeKind::NoneType:
    return NoneType::get(context);
  case c10::TypeKind::DeviceObjType:
    return DeviceType::get(context);
  case c10::TypeKind::GeneratorType:
    return GeneratorType::get(context);
  case c10::TypeKind::OptionalType:
    return OptionalType::get(context, convert(type->expectRef<c10::OptionalType>().getElementType()));
  case c10::TypeKind::ListType:
    return ListType::get(context, convert(type->expectRef<c10::ListType>().getElementType()));
  case c10::TypeKind::DictType: {
    auto &dict = type->expectRef<c10::DictType>();
    return DictType::get(context, convert(dict.getKeyType()), convert(dict.getValueType()));
  }
  case c10::TypeKind::TupleType: {
    SmallVector<Type> items;
    for (const c10::TypePtr &item : type->expectRef<c10::TupleType>().elements())
      items.push_back(convert(item));
    return TupleType::get(context, items);
  }
  default:
    return AnyType::get(context);
  }
}

RankedTensorType tensorTypeOf(const at::Tensor &tensor, MLIRContext *context) {
  Type element = elementTypeOf(tensor.scalar_type(), context);
  if (!element || tensor.layout() != at::kStrided)
    return {};
  Attribute layout;
  if (!tensor.is_contiguous()) {
    SmallVector<std::string> strides;
    for (int64_t stride : tensor.strides())
      strides.push_back(std::to_string(stride));
    layout = LayoutAttr::get(context, {}, strides);
  }
  return RankedTensorType::get(ArrayRef<int64_t>(tensor.sizes().data(), tensor.dim()), element, layout);
}

} // namespace cleave
