//===- OperatorGuards.cpp - Arguments that kernels trust ------------------===//
#include "runtime/operators/OperatorGuards.h"
#include "codegen/plan/Plan.h"
#include "runtime/base/DTypes.h"
#include "runtime/operators/ArgumentChecks.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <ATen/ops/empty.h>
#include <ATen/ops/q_per_channel_axis.h>
#include <ATen/ops/q_per_channel_scales.h>
#include <ATen/ops/q_per_channel_zero_points.h>
#include <ATen/ops/set.h>
#include <ATen/ops/zero.h>
#include <ATen/quantized/QTensorImpl.h>

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

//===- Tensors that are quantized by channel ------------------------------===//

/// Which tensors of these an operator may take: others than the named ones keep the scales while they change
/// sizes, and what packs weights reads a scale for each index of the first dimension.
enum class Channels : uint8_t { None, First, Any };

static Channels channelsOf(StringRef name) {
  if (name.starts_with("quantized::") && name.ends_with("_prepack"))
    return Channels::First;
  const bool isNamed = name == "aten::dequantize" || name == "aten::int_repr";
  return isNamed || name.starts_with("aten::q_per_channel_") ? Channels::Any : Channels::None;
}

/// Whether values of `type` may hold tensors.
static bool mayHoldTensors(const c10::Type &type) {
  if (type.kind() == c10::TypeKind::TensorType || type.kind() == c10::TypeKind::VarType ||
      type.kind() == c10::TypeKind::AnyType)
    return true;
  return llvm::any_of(type.containedTypes(), [](const c10::TypePtr &part) { return mayHoldTensors(*part); });
}

static void checkChannels(const at::Tensor &tensor, Channels allowed) {
  if (!tensor.is_quantized())
    return;
  const c10::QScheme scheme = tensor.qscheme();
  if (scheme != c10::kPerChannelAffine && scheme != c10::kPerChannelAffineFloatQParams)
    return;
  TORCH_CHECK(allowed != Channels::None,
              "found a tensor that is quantized by channel, which may only be packed or dequantized");
  const int64_t axis = at::q_per_channel_axis(tensor);
  const int64_t scales = at::q_per_channel_scales(tensor).numel();
  TORCH_CHECK(axis >= 0 && axis < tensor.dim() && (axis == 0 || allowed == Channels::Any) &&
                  tensor.size(axis) == scales && at::q_per_channel_zero_points(tensor).numel() == scales,
              "found ", scales, " scales along dimension ", axis, " of a tensor ", tensor.sizes());
}

/// Has `visit` see a value that is a tensor, or the tensors of one that is a list.
static void visitTensors(const IValue &value, llvm::function_ref<void(const at::Tensor &)> visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isList()) {
    for (const IValue &item : value.toListRef())
      if (item.isTensor())
        visit(item.toTensor());
  }
}

/// Some operators keep the mark of quantized tensors and lose their scales, which are then read where none
/// are.
static void checkQuantizer(const at::Tensor &tensor) {
  TORCH_CHECK(!tensor.is_quantized() || dynamic_cast<at::QTensorImpl *>(tensor.unsafeGetTensorImpl()),
              "found a quantized tensor that has lost its scales");
}

//===- Memory that nobody has written to ----------------------------------===//

/// Clears all that lies behind `tensor`, between its elements, too.
static void clearStorage(const at::Tensor &tensor) {
  const c10::Storage &storage = tensor.storage();
  at::empty({0}, tensor.options().dtype(at::kByte))
      .set_(storage, 0, {int64_t(storage.nbytes())}, {1})
      .zero_();
}

/// Makes all tensors but the first contiguous: kernels of embedding bags ignore the strides of those.
static void closeGaps(llvm::MutableArrayRef<IValue> arguments) {
  for (IValue &argument : arguments.drop_front())
    if (argument.isTensor() && argument.toTensor().defined())
      argument = argument.toTensor().contiguous();
}

namespace {
/// What an operator has left unwritten of its result: all from `begin` on along `dim`.
struct Rest {
  int64_t dim, begin;
};
} // namespace

/// Of _grouped_mm(self, mat2, offs, …): the rows or columns that are in no group.
static std::optional<Rest> restOf(llvm::ArrayRef<IValue> arguments) {
  if (!arguments[2].isTensor() || !arguments[2].toTensor().defined())
    return std::nullopt;
  const int64_t rows = arguments[0].toTensor().dim(), columns = arguments[1].toTensor().dim();
  // Of two matrices it is not in the sums.
  if (rows == columns)
    return std::nullopt;
  return Rest{rows == 2 ? 0 : 1, arguments[2].toTensor()[-1].item().toLong()};
}

/// The arguments on the stack; some operators take any number, which lies behind them.
static llvm::ArrayRef<IValue> argumentsOf(const Stack &stack, size_t count, bool isVararg) {
  const llvm::ArrayRef<IValue> values(stack.data(), stack.size());
  return isVararg ? values.drop_back().take_back(size_t(values.back().toInt())) : values.take_back(count);
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
  const bool takesTensors =
      schema.is_vararg() || llvm::any_of(schema.arguments(), [](const c10::Argument &argument) {
        return mayHoldTensors(*argument.type());
      });
  const Channels channels = channelsOf(schema.name());
  const bool isVararg = schema.is_vararg(), isGrouped = onCpu && schema.name() == "aten::_grouped_mm";
  const bool isBag = schema.name() == "aten::embedding_bag" || schema.name() == "aten::_embedding_bag";
  if (checked.empty() && !checkOwn && !clears && !takesTensors)
    return operation;
  return [=, operation = std::move(operation)](Stack &stack) mutable {
    if (isBag)
      closeGaps(llvm::MutableArrayRef(stack.data(), stack.size()).take_back(count));
    const llvm::ArrayRef<IValue> arguments = argumentsOf(stack, count, isVararg);
    bool isQuantized = false;
    for (const IValue &argument : arguments)
      visitTensors(argument, [&](const at::Tensor &tensor) {
        checkChannels(tensor, channels);
        isQuantized |= tensor.is_quantized();
      });
    for (auto [index, kind] : checked)
      check(arguments[index], kind);
    if (checkOwn)
      checkOwn(arguments);
    const std::optional<Rest> rest = isGrouped ? restOf(arguments) : std::nullopt;
    operation(stack);
    if (rest)
      stack.back().toTensor().slice(rest->dim, rest->begin).zero_();
    if (isQuantized)
      for (const IValue &result : stack)
        visitTensors(result, checkQuantizer);
    if (clears)
      clearStorage(stack.back().toTensor());
  };
}

} // namespace cleave::runtime
