//===- ValidateValues.cpp - Checks of text, constants, types and trees ----===//
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/Safetensors.h"
#include "codegen/plan/SafetensorsHeader.h"
#include "codegen/plan/ValidateParts.h"
#include "codegen/plan/text/Printable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

namespace cleave::plan {

using llvm::Error;
using llvm::StringRef;
using llvm::Twine;

/// Limit of nested constants and trees, which are walked by recursion here and in the runtime.
static constexpr int kMaxNesting = 24;
/// torch's limit of dimensions.
static constexpr size_t kMaxDimensions = 64;
static constexpr size_t kMaxElementWords = 256;
/// Limit of names, which stand at the beginning of messages.
static constexpr size_t kMaxNameBytes = 4096;

//===- Text ---------------------------------------------------------------===//

Error checkText(const Twine &where, StringRef text) {
  if (!llvm::json::isUTF8(text))
    return invalid(where, "its text is no UTF-8");
  if (!isPrintable(text))
    return invalid(where, "its text holds control characters");
  return Error::success();
}

Error checkName(const Twine &where, StringRef name) {
  return name.empty() ? invalid(where, "it has no name") : checkPath(where, name);
}

Error checkPath(const Twine &where, StringRef path) {
  if (path.size() > kMaxNameBytes)
    return invalid(where,
                   "a name of " + Twine(path.size()) + " bytes, expected at most " + Twine(kMaxNameBytes));
  return checkText(where, path);
}

Error checkElementType(const Twine &where, StringRef words) {
  auto isTypeCharacter = [](char c) { return llvm::isAlnum(c) || StringRef("_.?,[]() ").contains(c); };
  if (words.empty() || words.size() > kMaxElementWords || !llvm::all_of(words, isTypeCharacter))
    return invalid(where, "its element type is no type");
  return Error::success();
}

//===- Constants ----------------------------------------------------------===//

/// True if a list of `element` may hold a constant of this kind. Other element types are left to the runtime.
static bool mayHold(StringRef element, ConstantKind kind) {
  if (element.consume_back("?") && kind == ConstantKind::None)
    return true;
  if (element == "int")
    return kind == ConstantKind::Int;
  if (element == "float")
    return kind == ConstantKind::Float;
  if (element == "bool")
    return kind == ConstantKind::Bool;
  if (element == "str")
    return kind == ConstantKind::String;
  return element != "Tensor";
}

static Error checkConstant(const Twine &where, const Constant *constant, int depth) {
  if (!constant || constant->kind > ConstantKind::MAX)
    return invalid(where, "a constant is missing or of an unknown kind");
  if (depth > kMaxNesting)
    return invalid(where, "a constant is nested deeper than " + Twine(kMaxNesting));
  bool isList = constant->kind == ConstantKind::List;
  if (!isList && constant->kind != ConstantKind::Tuple && !constant->items.empty())
    return invalid(where, "a constant that is no list has items");
  if (constant->kind == ConstantKind::Bool && constant->integer != 0 && constant->integer != 1)
    return invalid(where, "a truth value is neither 0 nor 1");
  if (isList)
    if (Error error = checkElementType(where, constant->element))
      return error;
  for (const auto &item : constant->items) {
    if (Error error = checkConstant(where, item.get(), depth + 1))
      return error;
    if (isList && !mayHold(constant->element, item->kind))
      return invalid(where, "an item of a list of " + constant->element + " is of another type");
  }
  return Error::success();
}

Error checkConstant(const Twine &where, const Constant *constant) {
  return checkConstant(where, constant, 1);
}

//===- Sizes and types ----------------------------------------------------===//

/// The size must be >= 0 for the example sizes `traced`.
static Error checkSize(const Twine &where, const DimExpr *expr, llvm::ArrayRef<int64_t> traced) {
  std::optional<int64_t> size = expr ? evaluate(*expr, traced) : std::nullopt;
  if (!size || *size < 0)
    return invalid(where, "a size is missing, negative, beyond int64, or of a symbol that is not there");
  return Error::success();
}

static bool isUnknown(const DimExpr &expr) { return expr.terms.empty() && expr.divisor == 0; }

/// Each must be unknown or have a value; known strides must not be negative.
static Error checkSizes(const Twine &where, const std::vector<std::unique_ptr<DimExpr>> &sizes,
                        llvm::ArrayRef<int64_t> traced) {
  for (const auto &size : sizes)
    if (!size || !isUnknown(*size))
      if (Error error = checkSize(where, size.get(), traced))
        return error;
  return Error::success();
}

Error checkType(const Twine &where, const TensorType *type, llvm::ArrayRef<int64_t> traced) {
  if (!type || type->dtype > DType::MAX)
    return invalid(where, "its type is missing or of an unknown dtype");
  if (!type->ranked && !(type->dims.empty() && type->strides.empty()))
    return invalid(where, "its type has dimensions although its rank is unknown");
  if (type->dims.size() > kMaxDimensions)
    return invalid(where,
                   Twine(type->dims.size()) + " dimensions, torch has at most " + Twine(kMaxDimensions));
  if (!type->strides.empty() && type->strides.size() != type->dims.size())
    return invalid(where,
                   Twine(type->strides.size()) + " strides for " + Twine(type->dims.size()) + " dimensions");
  if (Error error = checkSizes(where, type->dims, traced))
    return error;
  if (Error error = checkSizes(where, type->strides, traced))
    return error;
  std::vector<int64_t> known;
  for (const auto &dim : type->dims)
    if (!isUnknown(*dim))
      known.push_back(*evaluate(*dim, traced));
  return type->dtype == DType::Unknown ? Error::success() : checkShape(where, type->dtype, known);
}

Error checkShape(const Twine &where, DType dtype, llvm::ArrayRef<int64_t> shape) {
  if (dtype == DType::Unknown || dtype > DType::MAX)
    return invalid(where, "its dtype is unknown");
  if (shape.size() > kMaxDimensions)
    return invalid(where, Twine(shape.size()) + " dimensions, torch has at most " + Twine(kMaxDimensions));
  if (!bytesOf(dtype, shape))
    return invalid(where, "a size is negative, or its bytes are beyond int64");
  return Error::success();
}

std::vector<int64_t> knownSizes(const TensorType &type) {
  std::vector<int64_t> sizes;
  for (const auto &dim : type.dims)
    sizes.push_back(asConstant(*dim).value_or(-1));
  return sizes;
}

/// The ranges must be in order and within `whole` indices; returns how many indices they have together.
static llvm::Expected<int64_t> extentOf(const Twine &where, int64_t whole, const DimRanges &ranges) {
  if (ranges.offsets.size() != ranges.sizes.size())
    return invalid(where, Twine(ranges.offsets.size()) + " offsets of ranges and " +
                              Twine(ranges.sizes.size()) + " sizes");
  int64_t end = 0, total = 0;
  for (auto [offset, size] : llvm::zip(ranges.offsets, ranges.sizes)) {
    if (offset < end || offset > whole || size < 0 || size > whole - offset)
      return invalid(where, "a range leaves the tensor or overlaps the one before");
    end = offset + size;
    total += size;
  }
  return total;
}

llvm::Expected<std::vector<int64_t>> partShape(const Twine &where, llvm::ArrayRef<int64_t> whole,
                                               const std::vector<std::unique_ptr<DimRanges>> &ranges) {
  std::vector<int64_t> shape = whole;
  int64_t before = -1;
  for (const auto &range : ranges) {
    if (!range || int64_t(range->dim) <= before || range->dim >= shape.size() || whole[range->dim] < 0)
      return invalid(where, "the ranges of a dimension are missing, or of a dimension that is not there, of "
                            "unknown size, or no later one");
    before = range->dim;
    if (Error error = extentOf(where, whole[range->dim], *range).moveInto(shape[range->dim]))
      return error;
  }
  return shape;
}

//===- Trees --------------------------------------------------------------===//

static Error checkKeys(const Twine &where, const Tree &tree) {
  if (tree.kind != TreeKind::Dict)
    return tree.keys.empty() ? Error::success() : invalid(where, "something that is no dict has keys");
  if (tree.keys.size() != tree.children.size())
    return invalid(where, "a dict has " + Twine(tree.keys.size()) + " keys and " +
                              Twine(tree.children.size()) + " values");
  llvm::StringSet<> keys;
  for (const std::string &key : tree.keys) {
    if (Error error = checkText(where, key))
      return error;
    if (!keys.insert(key).second)
      return invalid(where, "a dict has two keys '" + key + "'");
  }
  return Error::success();
}

static Error checkTree(const Twine &where, const Tree *tree, std::vector<bool> &seen, int depth) {
  if (!tree || tree->kind > TreeKind::MAX)
    return invalid(where, "the nesting is missing or of an unknown kind");
  if (depth > kMaxNesting)
    return invalid(where, "nested deeper than " + Twine(kMaxNesting));
  bool isInner =
      tree->kind == TreeKind::Tuple || tree->kind == TreeKind::List || tree->kind == TreeKind::Dict;
  if (!isInner && !tree->children.empty())
    return invalid(where, "a leaf has children");
  if (Error error = checkKeys(where, *tree))
    return error;
  if (tree->kind == TreeKind::Fixed)
    return checkConstant(where, tree->constant.get());
  if (tree->kind == TreeKind::Leaf) {
    if (tree->leaf >= seen.size() || seen[tree->leaf])
      return invalid(where, "leaf " + Twine(tree->leaf) + " stands there twice, or there are only " +
                                Twine(seen.size()));
    seen[tree->leaf] = true;
  }
  for (const auto &child : tree->children)
    if (Error error = checkTree(where, child.get(), seen, depth + 1))
      return error;
  return Error::success();
}

Error checkTree(const Twine &where, const Tree *tree, size_t leaves) {
  std::vector<bool> seen(leaves);
  if (Error error = checkTree(where, tree, seen, 1))
    return error;
  auto absent = llvm::find(seen, false);
  if (absent != seen.end())
    return invalid(where, "leaf " + Twine(absent - seen.begin()) + " does not stand in the nesting");
  return Error::success();
}

} // namespace cleave::plan
