//===- ContainerAccount.h - Lists, tuples, dicts and strings ----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_OPERATORS_CONTAINERACCOUNT_H
#define CLEAVE_RUNTIME_OPERATORS_CONTAINERACCOUNT_H

#include "runtime/device/MemoryAccount.h"
#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <cstdint>
#include <vector>

namespace cleave::runtime {

/// Most items of a list, tuple or dict, and most bytes of a string, that an instruction may make.
constexpr int64_t kMaxItems = int64_t(1) << 20;
/// Most bytes that one value may take beside the elements of its tensors.
constexpr int64_t kMaxContainerBytes = int64_t(256) << 20;
/// Most dimensions of a tensor; libtorch's kernels support as many.
constexpr int64_t kMaxDims = 64;
/// Deepest nesting of values. Values are visited and destroyed recursively.
constexpr int kMaxNested = 100;

/// True for a list, tuple, dict or string, which take memory beside tensors.
inline bool isContainer(const c10::IValue &value) {
  return value.isList() || value.isTuple() || value.isString() || value.isGenericDict();
}

/// Bytes that a tensor of so many dimensions takes beside its elements, as a view does.
constexpr int64_t bytesBesideElements(int64_t dims) {
  constexpr int64_t kInlineDims = 5; // Their sizes and strides are in the tensor itself.
  return int64_t(sizeof(c10::TensorImpl)) + (dims > kInlineDims ? 2 * dims * int64_t(sizeof(int64_t)) : 0);
}

/// Bytes that `value` takes beside the elements of its tensors, at any depth. Shared parts count each time.
/// Throws c10::Error where one of the limits above is exceeded.
int64_t containerBytesOf(const c10::IValue &value);

/// Counts the lists, tuples, dicts and strings in a program's slots in the account of the thread that makes
/// them. Small ones are not counted.
class ContainerAccount {
public:
  ~ContainerAccount() { release(0); }

  /// Counts `value`, now held by `slot`, in place of the slot's previous value. Throws c10::OutOfMemoryError
  /// where that exceeds the account's limit. Throws c10::Error where containerBytesOf does, and for a tensor
  /// with more than kMaxDims dimensions, whose sizes no account counts.
  void count(uint32_t slot, const c10::IValue &value) {
    if (isContainer(value))
      countContainer(slot, value);
    else if (value.isTensor())
      TORCH_CHECK(value.toTensor().dim() <= kMaxDims, "found a tensor of ", value.toTensor().dim(),
                  " dimensions, expected at most ", kMaxDims);
  }
  /// Stops counting values that have left their slots.
  void sweep(llvm::ArrayRef<c10::IValue> slots) {
    if (!counted.empty())
      sweepCounted(slots);
  }

private:
  struct Counted {
    uint32_t slot;
    int64_t bytes;
    MemoryAccountRef account;
  };
  void countContainer(uint32_t slot, const c10::IValue &value);
  void sweepCounted(llvm::ArrayRef<c10::IValue> slots);
  /// Stops counting the entries from `begin` on.
  void release(size_t begin);

  std::vector<Counted> counted;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORS_CONTAINERACCOUNT_H
