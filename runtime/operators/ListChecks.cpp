//===- ListChecks.cpp - How long lists and strings become -----------------===//
#include "runtime/operators/ArgumentCheckParts.h"
#include "runtime/operators/ContainerAccount.h"
#include "llvm/ADT/StringMap.h"
#include <ATen/WrapDimUtils.h>
#include <algorithm>
#include <limits>

namespace cleave::runtime {

using c10::IValue;
using llvm::ArrayRef;

/// Characters that a number of a tensor is written in, and more.
static constexpr int64_t kNumberText = 32;

static void checkLength(int64_t length) {
  TORCH_CHECK(length <= kMaxItems, "it would make a list or string of ", length, " items, expected at most ",
              kMaxItems);
}

static void checkProduct(int64_t count, int64_t each) {
  int64_t length;
  checkLength(__builtin_mul_overflow(std::max<int64_t>(count, 0), each, &length)
                  ? std::numeric_limits<int64_t>::max()
                  : length);
}

/// mul of a list and a number, in either order.
static void checkRepeatedList(ArrayRef<IValue> arguments) {
  const bool isFirst = arguments[0].isList();
  if (arguments[isFirst ? 0 : 1].isList())
    checkProduct(arguments[isFirst ? 1 : 0].toInt(), int64_t(arguments[isFirst ? 0 : 1].toListRef().size()));
}

/// ljust(self, width, …) and others.
static void checkWidth(ArrayRef<IValue> arguments) { checkLength(arguments[1].toInt()); }

/// rangelist(n).
static void checkCount(ArrayRef<IValue> arguments) { checkLength(arguments[0].toInt()); }

/// expandtabs(self, tabsize).
static void checkTabs(ArrayRef<IValue> arguments) {
  checkProduct(arguments[1].toInt(), int64_t(arguments[0].toStringRef().size()));
}

/// replace(self, old, new, max): the loop over an empty `old` has no end.
static void checkReplacement(ArrayRef<IValue> arguments) {
  const int64_t length = int64_t(arguments[0].toStringRef().size());
  const int64_t old = int64_t(arguments[1].toStringRef().size());
  TORCH_CHECK(old > 0, "found an empty string to be replaced");
  checkProduct(length / old, int64_t(arguments[2].toStringRef().size()));
}

/// join(self, values).
static void checkJoined(ArrayRef<IValue> arguments) {
  const int64_t between = int64_t(arguments[0].toStringRef().size());
  int64_t length = 0;
  for (const IValue &value : arguments[1].toListRef())
    checkLength(length += between + int64_t(value.toStringRef().size()));
}

/// True if the text of `value` shows its address.
static bool isOpaque(const IValue &value) {
  return value.isObject() || value.isCapsule() || value.isGenerator() || value.isStorage() ||
         value.isBlob() || value.isStream() || value.isFuture() || value.isRRef() || value.isPyObject();
}

/// Tensors in `value`, and what it holds beside them, as text.
static void checkText(const IValue &value) {
  int64_t length = containerBytesOf(value);
  auto add = [&](const IValue &part) {
    TORCH_CHECK(!isOpaque(part), "found a ", part.tagKind(), ", expected a value that has a text");
    if (part.isTensor() && part.toTensor().defined()) {
      const int64_t elements = std::min(part.toTensor().numel(), kMaxItems);
      checkLength(length += elements * kNumberText);
    }
    return false;
  };
  value.visit(add);
}

/// str(value), and format(text, …) of any number of values.
static void checkTexts(ArrayRef<IValue> arguments) {
  for (const IValue &value : arguments)
    checkText(value);
}

/// The size of `self` along the dimension `arguments[index]`, or the first where there is none.
static int64_t sizeAlong(ArrayRef<IValue> arguments, size_t index) {
  const at::Tensor &self = tensorOf(arguments[0]);
  const int64_t dim = index < arguments.size() ? arguments[index].toInt() : 0;
  return self.dim() == 0 ? 1 : self.size(at::maybe_wrap_dim(dim, self.dim()));
}

/// A list of `count` views of so many dimensions.
static void checkViews(int64_t count, int64_t dims) {
  checkLength(count);
  const int64_t bytes = std::max<int64_t>(count, 0) * (int64_t(sizeof(IValue)) + bytesBesideElements(dims));
  TORCH_CHECK(bytes <= kMaxContainerBytes, "it would make a list of views that take ", bytes,
              " bytes beside their elements, expected at most ", kMaxContainerBytes);
}

/// Views of the dimensions that `self`, the first argument, has.
static void checkViewsOf(ArrayRef<IValue> arguments, int64_t count) {
  checkViews(count, tensorOf(arguments[0]).dim());
}

/// unbind(self, dim).
static void checkUnbound(ArrayRef<IValue> arguments) { checkViewsOf(arguments, sizeAlong(arguments, 1)); }

/// split(self, split_size, dim) and split_with_sizes(self, split_sizes, dim).
static void checkSplit(ArrayRef<IValue> arguments) {
  checkViewsOf(arguments, arguments[1].isList()
                              ? int64_t(arguments[1].toListRef().size())
                              : sizeAlong(arguments, 2) / std::max<int64_t>(arguments[1].toInt(), 1));
}

/// chunk(self, chunks, …), and tensor_split and others, whose number of pieces, or where these begin, can be
/// a list or a tensor.
static void checkPieces(ArrayRef<IValue> arguments) {
  const IValue &pieces = arguments[1];
  if (pieces.isInt())
    checkViewsOf(arguments, pieces.toInt());
  else if (pieces.isList())
    checkViewsOf(arguments, int64_t(pieces.toListRef().size()) + 1);
  else if (pieces.isTensor() && tensorOf(pieces).dim() > 0)
    checkViewsOf(arguments, pieces.toTensor().numel() + 1);
  else if (pieces.isTensor())
    checkViewsOf(arguments, pieces.toTensor().item().toLong());
}

/// broadcast_tensors(tensors): each has as many dimensions as the one with most.
static void checkBroadcast(ArrayRef<IValue> arguments) {
  int64_t dims = 0;
  for (const IValue &tensor : arguments[0].toListRef())
    dims = std::max(dims, tensorOf(tensor).dim());
  checkViews(int64_t(arguments[0].toListRef().size()), dims);
}

/// linalg_multi_dot(tensors) and chain_matmul(matrices) make tables of as many rows and columns as there are
/// matrices.
static void checkChain(ArrayRef<IValue> arguments) {
  constexpr size_t kMost = 1000;
  const size_t count = arguments[0].toListRef().size();
  TORCH_CHECK(count <= kMost, "found ", count, " matrices, expected at most ", kMost);
}

ArgumentCheck listCheckOf(llvm::StringRef name, llvm::StringRef overload) {
  if (name == "aten::mul")
    return overload == "left_t" || overload == "right_" ? checkRepeatedList : nullptr;
  if (name == "aten::split" && overload == "str")
    return nullptr;
  static const llvm::StringMap<ArgumentCheck> checks = {{"aten::broadcast_tensors", checkBroadcast},
                                                        {"aten::center", checkWidth},
                                                        {"aten::chain_matmul", checkChain},
                                                        {"aten::chunk", checkPieces},
                                                        {"aten::dsplit", checkPieces},
                                                        {"aten::expandtabs", checkTabs},
                                                        {"aten::format", checkTexts},
                                                        {"aten::hsplit", checkPieces},
                                                        {"aten::join", checkJoined},
                                                        {"aten::linalg_multi_dot", checkChain},
                                                        {"aten::ljust", checkWidth},
                                                        {"aten::replace", checkReplacement},
                                                        {"aten::rjust", checkWidth},
                                                        {"aten::split", checkSplit},
                                                        {"aten::split_copy", checkSplit},
                                                        {"aten::split_with_sizes", checkSplit},
                                                        {"aten::split_with_sizes_copy", checkSplit},
                                                        {"aten::str", checkTexts},
                                                        {"aten::tensor_split", checkPieces},
                                                        {"aten::unbind", checkUnbound},
                                                        {"aten::unbind_copy", checkUnbound},
                                                        {"aten::unsafe_chunk", checkPieces},
                                                        {"aten::unsafe_split", checkSplit},
                                                        {"aten::unsafe_split_with_sizes", checkSplit},
                                                        {"aten::vsplit", checkPieces},
                                                        {"aten::zfill", checkWidth},
                                                        {"prim::rangelist", checkCount}};
  return checks.lookup(name);
}

} // namespace cleave::runtime
