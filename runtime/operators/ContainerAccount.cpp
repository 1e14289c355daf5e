//===- ContainerAccount.cpp -----------------------------------------------===//
#include "runtime/operators/ContainerAccount.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>
#include <algorithm>

namespace cleave::runtime {

using c10::IValue;

/// Smaller values are not counted: their number is bounded by the plan's slots.
static constexpr int64_t kSmall = 4096;
/// Dimensions whose sizes and strides a tensor holds in itself.
static constexpr int64_t kInlineDims = 5;
/// Bytes of a dict's entry besides its key and value.
static constexpr int64_t kEntryBytes = 32;

namespace {
class Walk {
public:
  void visit(const IValue &value, int depth);
  int64_t bytes = 0;

private:
  void add(size_t count, int64_t bytesEach);
  void visitItems(llvm::ArrayRef<IValue> items, int depth);
};
} // namespace

void Walk::add(size_t count, int64_t bytesEach) {
  TORCH_CHECK(count <= size_t(kMaxItems), "found a list or string of ", count, " items, expected at most ",
              kMaxItems);
  bytes += int64_t(count) * bytesEach;
  TORCH_CHECK(bytes <= kMaxContainerBytes, "found lists and strings of more than ", kMaxContainerBytes,
              " bytes in one value");
}

void Walk::visitItems(llvm::ArrayRef<IValue> items, int depth) {
  add(items.size(), sizeof(IValue));
  for (const IValue &item : items)
    if (isContainer(item))
      visit(item, depth + 1);
}

/// True if items of such a list take memory that is counted here.
static bool holdsContainers(const c10::List<IValue> &list) {
  switch (list.elementType()->kind()) {
  case c10::TypeKind::TensorType:
  case c10::TypeKind::IntType:
  case c10::TypeKind::FloatType:
  case c10::TypeKind::BoolType:
    return false;
  default:
    return true;
  }
}

/// Bytes of the tensor beside its elements, which may be a view's.
static int64_t bytesBesideElements(const at::Tensor &tensor) {
  if (!tensor.defined())
    return 0;
  const int64_t dims = tensor.dim();
  return int64_t(sizeof(c10::TensorImpl)) + (dims > kInlineDims ? 2 * dims * int64_t(sizeof(int64_t)) : 0);
}

/// Bytes of an item of a list of tensors. One operator makes items of one number of dimensions, and a list
/// that is appended to is looked at each time.
static int64_t bytesOfTensorItem(c10::ArrayRef<IValue> items) {
  int64_t most = 0;
  for (const IValue *item : {&items.front(), &items.back()})
    if (item->isTensor())
      most = std::max(most, bytesBesideElements(item->toTensor()));
  return most;
}

void Walk::visit(const IValue &value, int depth) {
  TORCH_CHECK(depth < kMaxNested, "found values nested ", kMaxNested, " deep, expected fewer");
  if (value.isString())
    return add(value.toStringRef().size(), 1);
  if (value.isTuple()) {
    const auto &items = value.toTupleRef().elements();
    return visitItems(llvm::ArrayRef<IValue>(items.begin(), items.size()), depth);
  }
  if (value.isList()) {
    // A loop that appends to a list does not visit the items that are there already.
    if (c10::ArrayRef<IValue> items = value.toListRef(); !holdsContainers(value.toList()))
      return add(items.size(), int64_t(sizeof(IValue)) + (items.empty() ? 0 : bytesOfTensorItem(items)));
    return visitItems(llvm::ArrayRef(value.toListRef().data(), value.toListRef().size()), depth);
  }
  const c10::Dict<IValue, IValue> dict = value.toGenericDict();
  add(dict.size(), 2 * sizeof(IValue) + kEntryBytes);
  for (const auto &entry : dict)
    for (const IValue &part : {IValue(entry.key()), IValue(entry.value())})
      if (isContainer(part))
        visit(part, depth + 1);
}

int64_t containerBytesOf(const IValue &value) {
  Walk walk;
  if (isContainer(value))
    walk.visit(value, 0);
  return walk.bytes;
}

void ContainerAccount::noteContainer(uint32_t slot, const IValue &value) {
  const int64_t bytes = containerBytesOf(value);
  auto known = llvm::find_if(counted, [&](const Counted &entry) { return entry.slot == slot; });
  if (known != counted.end()) {
    known->account->release(known->bytes);
    counted.erase(known);
  }
  MemoryAccount *account = ScopedAccount::current();
  if (bytes < kSmall || !account)
    return;
  account->hold(bytes);
  counted.push_back({slot, bytes, account});
}

void ContainerAccount::sweepCounted(llvm::ArrayRef<IValue> slots) {
  auto end = std::partition(counted.begin(), counted.end(),
                            [&](const Counted &entry) { return isContainer(slots[entry.slot]); });
  release(end - counted.begin());
}

void ContainerAccount::release(size_t begin) {
  for (const Counted &entry : llvm::ArrayRef(counted).drop_front(begin))
    entry.account->release(entry.bytes);
  counted.resize(begin);
}

} // namespace cleave::runtime
