//===- MemoryAccount.h - Which device holds how many bytes ------*- C++ -*-===//
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

/// The bytes that one device holds, now and at most, and the arena that it allocates from. Every block of
/// memory that a device's thread allocates is counted here until it is freed, by whichever thread, or moved
/// to another account; it goes back to the arena that it is from in any case. An account lives as long as
/// anything that is counted in it. What the arena keeps for later is not counted.
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

/// While it lives, what this thread allocates through libtorch comes from the arena of `account` and is
/// counted there. Other threads, such as those that libtorch shares an operator out to, allocate as they
/// always do.
class ScopedAccount {
public:
  explicit ScopedAccount(MemoryAccount &account);
  ~ScopedAccount();
  ScopedAccount(const ScopedAccount &) = delete;
  ScopedAccount &operator=(const ScopedAccount &) = delete;

  /// The account of this thread now; null where it has none.
  static MemoryAccount *current();

private:
  MemoryAccount *previous;
};

/// Counts the memory behind every tensor of `value` in `receiver` instead of where it was counted. Memory
/// that no account's thread has allocated (mapped weights, a request's inputs) stays uncounted.
void moveAccounting(const c10::IValue &value, MemoryAccount &receiver);

/// Stops counting the memory behind `tensor` in `giver`, if it is counted there: it is the caller's from now
/// on.
void stopAccounting(const at::Tensor &tensor, MemoryAccount &giver);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_MEMORYACCOUNT_H
