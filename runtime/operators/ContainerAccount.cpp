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
/// Bytes of a string, list, tuple or dict without what it holds.
static constexpr int64_t kObjectBytes = 64;
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
  void visitTensors(llvm::ArrayRef<IValue> items);
  void visitList(const c10::List<IValue> &list, llvm::ArrayRef<IValue> items, int depth);
  /// A part of a value of this depth.
  void visitItem(const IValue &item, int depth);
};
} // namespace

void Walk::add(size_t count, int64_t bytesEach) {
  TORCH_CHECK(count <= size_t(kMaxItems), "found a list or string of ", count, " items, expected at most ",
              kMaxItems);
  bytes += int64_t(count) * bytesEach;
  TORCH_CHECK(bytes <= kMaxContainerBytes, "found lists and strings of more than ", kMaxContainerBytes,
              " bytes in one value");
}

static int64_t bytesBesideElements(const IValue &item) {
  return item.isTensor() && item.toTensor().defined() ? bytesBesideElements(item.toTensor().dim()) : 0;
}

void Walk::visitItem(const IValue &item, int depth) {
  if (isContainer(item))
    visit(item, depth + 1);
  else
    add(1, bytesBesideElements(item));
}

void Walk::visitItems(llvm::ArrayRef<IValue> items, int depth) {
  add(items.size(), sizeof(IValue));
  for (const IValue &item : items)
    visitItem(item, depth);
}

/// A loop that appends to a list comes here each time.
void Walk::visitTensors(llvm::ArrayRef<IValue> items) {
  add(items.size(), sizeof(IValue));
  int64_t beside = 0;
  for (const IValue &item : items)
    beside += bytesBesideElements(item);
  add(1, beside);
}

void Walk::visitList(const c10::List<IValue> &list, llvm::ArrayRef<IValue> items, int depth) {
  switch (list.elementType()->kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::FloatType:
  case c10::TypeKind::BoolType:
    return add(items.size(), sizeof(IValue));
  case c10::TypeKind::TensorType:
    return visitTensors(items);
  default:
    return visitItems(items, depth);
  }
}

void Walk::visit(const IValue &value, int depth) {
  TORCH_CHECK(depth < kMaxNested, "found values nested ", kMaxNested, " deep, expected fewer");
  add(1, kObjectBytes);
  if (value.isString())
    return add(value.toStringRef().size(), 1);
  if (value.isTuple()) {
    const auto &items = value.toTupleRef().elements();
    return visitItems(llvm::ArrayRef<IValue>(items.begin(), items.size()), depth);
  }
  if (value.isList()) {
    const c10::ArrayRef<IValue> items = value.toListRef();
    return visitList(value.toList(), llvm::ArrayRef(items.data(), items.size()), depth);
  }
  const c10::Dict<IValue, IValue> dict = value.toGenericDict();
  add(dict.size(), 2 * sizeof(IValue) + kEntryBytes);
  for (const auto &entry : dict)
    for (const IValue &part : {IValue(entry.key()), IValue(entry.value())})
      visitItem(part, depth);
}

int64_t containerBytesOf(const IValue &value) {
  Walk walk;
  if (isContainer(value))
    walk.visit(value, 0);
  return walk.bytes;
}

void ContainerAccount::countContainer(uint32_t slot, const IValue &value) {
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
