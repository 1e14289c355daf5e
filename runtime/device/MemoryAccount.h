//===- MemoryAccount.h - Bytes held by each device --------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_MEMORYACCOUNT_H
#define CLEAVE_RUNTIME_DEVICE_MEMORYACCOUNT_H

#include "runtime/device/Arena.h"
#include "llvm/ADT/IntrusiveRefCntPtr.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <atomic>
#include <cstdint>
#include <string>

namespace cleave::runtime {

/// Current and peak bytes of one device, and its arena. A block that a device's thread allocates is counted
/// here until any thread frees it or its accounting moves to another account; its memory always returns to
/// the arena that it came from. Reference-counted by the blocks that are counted in it. Memory that the arena
/// caches is not counted.
class MemoryAccount : public llvm::ThreadSafeRefCountedBase<MemoryAccount> {
public:
  /// \param limitBytes  most bytes that may be held at one time; 0 for no limit.
  explicit MemoryAccount(std::string name, int64_t limitBytes = 0)
      : label(std::move(name)), limit(limitBytes) {}

  /// Counts `bytes` as held. Throws c10::OutOfMemoryError, and counts nothing, where that exceeds the limit.
  void hold(int64_t bytes);
  void release(int64_t bytes) { held.fetch_sub(bytes, std::memory_order_relaxed); }

  Arena &arena() const { return *memory; }
  const std::string &name() const { return label; }
  int64_t heldBytes() const { return held.load(std::memory_order_relaxed); }
  int64_t peakBytes() const { return peak.load(std::memory_order_relaxed); }

private:
  const std::string label;
  const int64_t limit;
  const Arena::Handle memory = Arena::create();
  std::atomic<int64_t> held{0}, peak{0};
};

using MemoryAccountRef = llvm::IntrusiveRefCntPtr<MemoryAccount>;

/// While it lives, libtorch allocations of this thread come from the arena of `account` and are counted
/// there. Other threads, including libtorch's intra-op threads, are not affected.
class ScopedAccount {
public:
  explicit ScopedAccount(MemoryAccount &account);
  ~ScopedAccount();
  ScopedAccount(const ScopedAccount &) = delete;
  ScopedAccount &operator=(const ScopedAccount &) = delete;

  /// The account of this thread; null where it has none.
  static MemoryAccount *current();

private:
  MemoryAccount *previous;
};

/// Moves the accounting of every tensor of `value` to `receiver`. Memory that no account's thread has
/// allocated (mapped weights, request inputs) stays uncounted.
void moveAccounting(const c10::IValue &value, MemoryAccount &receiver);

/// Stops counting the memory of `tensor` in `giver`, if it is counted there: the caller owns it from now on.
void stopAccounting(const at::Tensor &tensor, MemoryAccount &giver);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_MEMORYACCOUNT_H
