//===- Values.cpp ---------------------------------------------------------===//
#include "runtime/base/Values.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/Safetensors.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/Exceptions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/jit/frontend/schema_type_parser.h>

namespace cleave::runtime {

using llvm::Expected;
using plan::ConstantKind;
using torch::jit::Lexer;

/// Longest type. Bounds the depth of the recursive parser.
static constexpr size_t kLongestType = 256;

/// Reads `count` types separated by commas, and nothing else.
static Expected<std::vector<c10::TypePtr>> parseTypes(llvm::StringRef text, size_t count) {
  auto parsed = catching([&]() -> Expected<std::vector<c10::TypePtr>> {
    TORCH_CHECK(text.size() <= kLongestType, "it is too long");
    Lexer lexer(std::make_shared<torch::jit::Source>(text.str()));
    torch::jit::SchemaTypeParser parser(lexer, /*parse_complete_tensor_types=*/false,
                                        /*allow_typevars=*/false);
    std::vector<c10::TypePtr> types;
    while (types.size() < count) {
      if (!types.empty())
        lexer.expect(',');
      types.push_back(parser.parseType().first);
    }
    lexer.nextIf(torch::jit::TK_NEWLINE);
    lexer.expect(torch::jit::TK_EOF);
    return types;
  });
  if (!parsed)
    return llvm::createStringError("'" + text.take_front(kLongestType) +
                                   "' is no type: " + llvm::toString(parsed.takeError()));
  return parsed;
}

Expected<c10::TypePtr> parseType(llvm::StringRef text) {
  auto types = parseTypes(text, 1);
  if (!types)
    return types.takeError();
  return types->front();
}

Expected<std::pair<c10::TypePtr, c10::TypePtr>> parseDictTypes(llvm::StringRef text) {
  auto types = parseTypes(text, 2);
  if (!types)
    return types.takeError();
  return std::pair((*types)[0], (*types)[1]);
}

static bool isOf(const c10::IValue &item, const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::TensorType:
    return item.isTensor();
  case c10::TypeKind::IntType:
    return item.isInt();
  case c10::TypeKind::FloatType:
    return item.isDouble();
  case c10::TypeKind::BoolType:
    return item.isBool();
  case c10::TypeKind::OptionalType:
    return item.isNone() || isOf(item, *type.containedType(0));
  default:
    return item.type()->isSubtypeOf(type);
  }
}

void checkElement(const c10::IValue &item, const c10::Type &type) {
  TORCH_CHECK(isOf(item, type), "found a ", item.tagKind(), " among values of type ", type.repr_str());
}

/// True if keys with these hashes, ascending, fit into a table of 2^bits slots as libtorch's
/// (c10/util/order_preserving_flat_hash_map.h): each key in the first free slot after that of its hash, and
/// not too far.
static bool fitTable(llvm::ArrayRef<uint64_t> hashes, unsigned bits) {
  const uint64_t farthest = std::max(bits, 4u);
  uint64_t free = 0;
  for (uint64_t hash : hashes) {
    const uint64_t own = hash >> (64 - bits), place = std::max(own, free);
    if (place - own >= farthest)
      return false;
    free = place + 1;
  }
  return true;
}

void checkEntries(llvm::ArrayRef<c10::IValue> entries) {
  // Factor by which that table multiplies hashes.
  constexpr uint64_t kFactor = 11400714819323198485u;
  // A table is doubled when it is half full; keys that nobody has crafted need one more doubling at most.
  constexpr unsigned kMoreBits = 3;
  std::vector<uint64_t> hashes;
  for (size_t i = 0; i + 1 < entries.size(); i += 2)
    hashes.push_back(c10::detail::DictKeyHash()(entries[i]) * kFactor);
  llvm::sort(hashes);
  TORCH_CHECK(fitTable(hashes, llvm::Log2_64_Ceil(hashes.size() + 1) + 1 + kMoreBits), "found a dict of ",
              hashes.size(), " keys with similar hashes, which would take far more memory than they do");
}

static Expected<std::vector<c10::IValue>> toValues(const plan::Constant &constant) {
  std::vector<c10::IValue> values;
  for (const auto &item : constant.items) {
    Expected<c10::IValue> value = toValue(*item);
    if (!value)
      return value.takeError();
    values.push_back(std::move(*value));
  }
  return values;
}

static Expected<c10::IValue> toList(const plan::Constant &constant) {
  Expected<c10::TypePtr> element = parseType(constant.element);
  if (!element)
    return element.takeError();
  Expected<std::vector<c10::IValue>> items = toValues(constant);
  if (!items)
    return items.takeError();
  c10::impl::GenericList list(*element);
  for (c10::IValue &item : *items) {
    if (!item.type()->isSubtypeOf(**element))
      return llvm::createStringError("a list of " + constant.element + " holds a " + item.type()->str());
    list.push_back(std::move(item));
  }
  return c10::IValue(std::move(list));
}

static Expected<c10::IValue> toTuple(const plan::Constant &constant) {
  Expected<std::vector<c10::IValue>> items = toValues(constant);
  if (!items)
    return items.takeError();
  return c10::IValue(c10::ivalue::Tuple::create(std::move(*items)));
}

static Expected<c10::IValue> convert(const plan::Constant &constant) {
  switch (constant.kind) {
  case ConstantKind::None:
    return c10::IValue();
  case ConstantKind::Bool:
    return c10::IValue(constant.integer != 0);
  case ConstantKind::Int:
    return c10::IValue(constant.integer);
  case ConstantKind::Float:
    return c10::IValue(constant.real);
  case ConstantKind::Complex:
    return c10::IValue(c10::complex<double>(constant.real, constant.imaginary));
  case ConstantKind::String:
    return c10::IValue(constant.text);
  case ConstantKind::Device:
    return c10::IValue(c10::Device(constant.text));
  case ConstantKind::List:
    return toList(constant);
  case ConstantKind::Tuple:
    return toTuple(constant);
  }
  return llvm::createStringError("a constant is of a kind that this version does not know");
}

Expected<c10::IValue> toValue(const plan::Constant &constant) {
  return catching([&] { return convert(constant); });
}

static bool isElsewhere(c10::Device device, const at::Tensor &tensor) {
  return tensor.defined() && tensor.device() != device && !(tensor.is_cpu() && tensor.dim() == 0);
}

static bool hasElsewhere(c10::Device device, const c10::IValue &value) {
  bool found = false;
  value.visit([&](const c10::IValue &part) {
    return found = found || (part.isTensor() && isElsewhere(device, part.toTensor()));
  });
  return found;
}

static at::Tensor moved(c10::Device device, const at::Tensor &tensor) {
  const bool canBePinned = tensor.layout() == at::kStrided && !tensor.is_quantized();
  if (!device.is_cuda() || !tensor.is_cpu() || !canBePinned)
    return tensor.to(device);
  // libtorch pins a tensor with its strides, and cannot write to one that is expanded.
  const at::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  return dense.pin_memory().to(device, /*non_blocking=*/true);
}

c10::IValue movedTo(c10::Device device, c10::IValue value) {
  if (value.isTensor())
    return isElsewhere(device, value.toTensor()) ? moved(device, value.toTensor()) : std::move(value);
  return hasElsewhere(device, value) ? value.deepcopy(device) : std::move(value);
}

bool hasNoInternalOverlap(const at::Tensor &tensor) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (int64_t i = 0; i < tensor.dim(); ++i)
    if (tensor.size(i) > 1)
      dims.push_back({tensor.stride(i), tensor.size(i)});
  llvm::sort(dims);
  int64_t reached = 1;
  for (auto [stride, size] : dims) {
    if (stride < reached || __builtin_mul_overflow(stride, size, &reached))
      return false;
  }
  return true;
}

std::string describe(const at::Tensor &tensor) { return describe(tensor.scalar_type(), tensor.sizes()); }

std::string describe(c10::ScalarType type, at::IntArrayRef sizes) {
  plan::DType dtype = dtypeOf(type);
  std::string name = dtype == plan::DType::Unknown ? c10::toString(type) : plan::nameOf(dtype).str();
  auto words = llvm::map_range(sizes, [](int64_t size) { return std::to_string(size); });
  return name + "[" + llvm::join(words, ", ") + "]";
}

std::string describe(const plan::TensorType &type, llvm::ArrayRef<std::string> symbolNames) {
  if (!type.ranked)
    return plan::nameOf(type.dtype).str() + "[…]";
  auto dims = llvm::map_range(type.dims, [&](const auto &dim) { return plan::toString(*dim, symbolNames); });
  return plan::nameOf(type.dtype).str() + "[" + llvm::join(dims, ", ") + "]";
}

} // namespace cleave::runtime
