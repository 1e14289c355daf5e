//===- PackedImport.cpp - Packed weights of quantized layers --------------===//
//
// A quantized layer holds its weight in an object that only its kernel can read. The import unpacks it into
// tensors, which shards can hold, and emits the operators that pack them again; see prepacksWeights in
// ir/semantics.
//
//===----------------------------------------------------------------------===//
#include "frontend/torchscript/TorchScriptImporter.h"
#include "ir/OperatorDialect.h"
#include <ATen/ATen.h>
#include <ATen/core/custom_class.h>
#include <ATen/native/quantized/PackedParams.h>

using namespace mlir;

namespace cleave {

/// The int8 weight and the bias of a packed linear layer; nothing for other objects.
static std::optional<std::pair<at::Tensor, std::optional<at::Tensor>>>
unpackLinear(const c10::IValue &value) {
  static const c10::TypePtr linear = c10::getCustomClassType<c10::intrusive_ptr<LinearPackedParamsBase>>();
  if (!value.isCustomClass() || *value.type() != *linear)
    return std::nullopt;
  auto [weight, bias] = value.toCustomClass<LinearPackedParamsBase>()->unpack();
  // Packed float16 weights are not quantized.
  if (!weight.is_quantized() || weight.scalar_type() != at::kQInt8)
    return std::nullopt;
  return std::pair(weight, bias);
}

StringRef remedyForPacked(const c10::IValue &value) {
  // Objects of LSTMs and convolutions, and those in float16.
  return value.isCustomClass()
             ? "; leave this module out of quantization, of which only layers that are Linear, in "
               "int8, can be taken: quantize_dynamic(model, {torch.nn.Linear})"
             : "";
}

Value TorchScriptImporter::importPacked(const Object &object) {
  if (Value known = parameters.lookup(object.path))
    return known;
  auto unpacked = unpackLinear(object.value);
  if (!unpacked)
    return {};
  auto &[weight, bias] = *unpacked;
  auto stored = [&](const char *name, const char *role, const at::Tensor &tensor) {
    return parameter(weights.add(object.path + "." + name, role, tensor), tensor);
  };
  Value integers = stored("weight", "parameter", weight.int_repr());
  Value biases = bias ? stored("bias", "parameter", bias->detach()) : Value();
  bool isPerRow = weight.qscheme() == at::kPerChannelAffine;
  Value scales = isPerRow ? stored("scales", "buffer", weight.q_per_channel_scales()) : Value();
  Value zeroPoints = isPerRow ? stored("zero_points", "buffer", weight.q_per_channel_zero_points()) : Value();
  // With the parameters, so that every region can use it.
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfter(lastParameter);
  auto call = [&](StringRef name, ArrayRef<Value> operands, Type type) {
    return OperatorOp::create(b, location(), name, operands, type)->getResult(0);
  };
  Type tensor = UnknownTensorType::get(b.getContext());
  Value quantized;
  if (isPerRow) {
    Value axis = constant(b.getI64IntegerAttr(weight.q_per_channel_axis()), b.getI64Type());
    quantized = call("aten._make_per_channel_quantized_tensor", {integers, scales, zeroPoints, axis}, tensor);
  } else {
    Value scale = constant(b.getF64FloatAttr(weight.q_scale()), b.getF64Type());
    Value zeroPoint = constant(b.getI64IntegerAttr(weight.q_zero_point()), b.getI64Type());
    quantized = call("aten._make_per_tensor_quantized_tensor", {integers, scale, zeroPoint}, tensor);
  }
  if (!biases)
    biases = constant(b.getUnitAttr(), NoneType::get(b.getContext()));
  Value packed = call("quantized.linear_prepack", {quantized, biases}, AnyType::get(b.getContext()));
  lastParameter = packed.getDefiningOp();
  return parameters[object.path] = packed;
}

} // namespace cleave
