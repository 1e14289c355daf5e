//===- OperatorGuards.cpp - Arguments that kernels trust ------------------===//
#include "runtime/OperatorGuards.h"
#include "codegen/plan/Plan.h"
#include "runtime/ArgumentChecks.h"
#include "runtime/DTypes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include <ATen/ops/zero.h>

namespace cleave::runtime {

using c10::IValue;
using llvm::StringRef;
using torch::jit::Stack;

//===- Enumerations and devices -------------------------------------------===//

namespace {
enum class Checked : uint8_t { DType, Layout, MemoryFormat, Device };
struct CheckedArgument {
  size_t index;
  Checked kind;
};
} // namespace

static void checkDevice(c10::Device device) {
  TORCH_CHECK(device.is_cpu(), "found the device ", device, ", expected the CPU");
}

/// Of quantized types those that elements of a byte or more have.
static void checkDType(int64_t number) {
  const bool isInRange = number >= 0 && number < int64_t(c10::ScalarType::NumOptions);
  const auto type = isInRange ? c10::ScalarType(number) : c10::ScalarType::Undefined;
  TORCH_CHECK(dtypeOf(type) != plan::DType::Unknown || type == c10::kQInt8 || type == c10::kQUInt8 ||
                  type == c10::kQInt32,
              "found the dtype ", number, ", expected one that plans support");
}

static void check(const IValue &value, Checked kind) {
  if (value.isNone())
    return;
  switch (kind) {
  case Checked::Device:
    return checkDevice(value.toDevice());
  case Checked::DType:
    return checkDType(value.toInt());
  case Checked::Layout:
    TORCH_CHECK(value.toInt() == int64_t(c10::kStrided), "found the layout ", value.toInt(),
                ", expected a dense one");
    return;
  case Checked::MemoryFormat:
    TORCH_CHECK(value.toInt() >= 0 && value.toInt() < int64_t(c10::MemoryFormat::NumOptions),
                "found the memory format ", value.toInt(), ", which does not exist");
    return;
  }
}

/// A dtype is an integer in the schemas of TorchScript's own operators, where its name alone says what it is.
static std::optional<Checked> checkedKind(const c10::Argument &argument) {
  c10::TypePtr type = argument.real_type();
  if (type->kind() == c10::TypeKind::OptionalType)
    type = type->containedType(0);
  const bool isInt = type->kind() == c10::TypeKind::IntType;
  const StringRef name = argument.name();
  if (type->kind() == c10::TypeKind::ScalarTypeType || (isInt && name == "dtype"))
    return Checked::DType;
  if (type->kind() == c10::TypeKind::LayoutType || (isInt && name == "layout"))
    return Checked::Layout;
  if (type->kind() == c10::TypeKind::MemoryFormatType || (isInt && name == "memory_format"))
    return Checked::MemoryFormat;
  if (type->kind() == c10::TypeKind::DeviceObjType)
    return Checked::Device;
  return std::nullopt;
}

/// Whether the operator gives memory that nobody has written to.
static bool isLeftUnwritten(StringRef name) {
  return llvm::is_contained({"aten::empty", "aten::empty_like", "aten::empty_permuted", "aten::empty_strided",
                             "aten::new_empty", "aten::new_empty_strided"},
                            name);
}

torch::jit::Operation guarded(const c10::FunctionSchema &schema, torch::jit::Operation operation,
                              bool onCpu) {
  const size_t count = schema.arguments().size();
  std::vector<CheckedArgument> checked;
  for (size_t i = 0; i < count; ++i)
    if (std::optional<Checked> kind = checkedKind(schema.arguments()[i]);
        kind && (onCpu || *kind != Checked::Device))
      checked.push_back({i, *kind});
  const ArgumentCheck checkOwn = argumentCheckOf(schema.name(), schema.overload_name());
  const bool clears = isLeftUnwritten(schema.name());
  if (checked.empty() && !checkOwn && !clears)
    return operation;
  return [=, operation = std::move(operation)](Stack &stack) mutable {
    llvm::ArrayRef<IValue> arguments = llvm::ArrayRef(stack.data(), stack.size()).take_back(count);
    for (auto [index, kind] : checked)
      check(arguments[index], kind);
    if (checkOwn)
      checkOwn(arguments);
    operation(stack);
    if (clears)
      stack.back().toTensor().zero_();
  };
}

} // namespace cleave::runtime
