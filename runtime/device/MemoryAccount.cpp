//===- MemoryAccount.cpp --------------------------------------------------===//
#include "runtime/device/MemoryAccount.h"
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <limits>

namespace cleave::runtime {

namespace {

/// Precedes the data of every block:
///
///   | arena's | owner | bytes | data …
///   0         48      56      64
struct alignas(c10::gAlignment) BlockHeader : Arena::Block {
  /// Holds a reference; null for blocks that no device's thread allocated.
  std::atomic<MemoryAccount *> owner;
  int64_t bytes;
};
static_assert(sizeof(BlockHeader) == c10::gAlignment, "data must stay aligned as c10 promises");

/// libtorch's CPU allocator, with a header that names the account of each block.
class AccountingAllocator final : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void *to, const void *from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

} // namespace

static thread_local MemoryAccount *currentAccount = nullptr;

static BlockHeader *headerOf(void *data) { return static_cast<BlockHeader *>(data) - 1; }

static void freeBlock(void *data) {
  if (!data)
    return;
  BlockHeader *header = headerOf(data);
  if (MemoryAccount *owner = header->owner.load(std::memory_order_acquire)) {
    owner->release(header->bytes);
    owner->Release();
  }
  if (header->arena)
    Arena::free(header);
  else
    c10::GetDefaultCPUAllocator()->raw_deallocate(header);
}

/// Allocates a block for a thread that belongs to no device.
static BlockHeader *allocateUncounted(int64_t bytes) {
  void *memory = c10::GetDefaultCPUAllocator()->raw_allocate(bytes + sizeof(BlockHeader));
  auto *header = static_cast<BlockHeader *>(memory);
  header->arena = nullptr;
  new (&header->owner) std::atomic<MemoryAccount *>(nullptr);
  header->bytes = bytes;
  return header;
}

/// Allocates a block that is counted in `account`.
static BlockHeader *allocateIn(MemoryAccount &account, int64_t bytes) {
  auto *header = static_cast<BlockHeader *>(account.arena().allocate(bytes + sizeof(BlockHeader)));
  TORCH_CHECK_WITH(OutOfMemoryError, header, account.name(), ": no memory for ", bytes, " bytes more, ",
                   account.heldBytes(), " held");
  // Counted last, so that failed allocations do not raise the peak.
  try {
    account.hold(bytes);
  } catch (...) {
    Arena::free(header);
    throw;
  }
  account.Retain();
  new (&header->owner) std::atomic<MemoryAccount *>(&account);
  header->bytes = bytes;
  return header;
}

c10::DataPtr AccountingAllocator::allocate(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0)
    return {nullptr, nullptr, &freeBlock, cpu};
  TORCH_CHECK(bytes <= size_t(std::numeric_limits<int64_t>::max()) - sizeof(BlockHeader), "cannot allocate ",
              bytes, " bytes");
  BlockHeader *header =
      currentAccount ? allocateIn(*currentAccount, int64_t(bytes)) : allocateUncounted(int64_t(bytes));
  return {header + 1, header + 1, &freeBlock, cpu};
}

c10::DeleterFnPtr AccountingAllocator::raw_deleter() const { return &freeBlock; }

// Installed before main, and never replaced: oneDNN returns memory that it took raw from libtorch's allocator
// to whichever allocator is installed by then, so a later change could free one's block with the other.
static const bool installed = [] {
  // Never destroyed: blocks outlive static objects.
  static auto *allocator = new AccountingAllocator;
  c10::SetCPUAllocator(allocator, /*priority=*/1);
  return true;
}();

void MemoryAccount::hold(int64_t bytes) {
  int64_t now = held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (limit && now > limit) {
    release(bytes);
    TORCH_CHECK_WITH(OutOfMemoryError, false, label, ": ", bytes, " bytes wanted, ", now - bytes, " of ",
                     limit, " held");
  }
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

ScopedAccount::ScopedAccount(MemoryAccount &account) : previous(currentAccount) { currentAccount = &account; }

ScopedAccount::~ScopedAccount() { currentAccount = previous; }

MemoryAccount *ScopedAccount::current() { return currentAccount; }

/// The header of the block behind `tensor`; null if our allocator did not allocate it.
static BlockHeader *blockOf(const at::Tensor &tensor) {
  if (!tensor.defined() || !tensor.has_storage())
    return nullptr;
  const c10::DataPtr &data = tensor.storage().data_ptr();
  return data.get_deleter() == &freeBlock && data.get_context() ? headerOf(data.get_context()) : nullptr;
}

static void moveBlock(const at::Tensor &tensor, MemoryAccount &receiver) {
  BlockHeader *block = blockOf(tensor);
  if (!block || block->owner.load(std::memory_order_acquire) == &receiver)
    return;
  receiver.hold(block->bytes);
  receiver.Retain();
  if (MemoryAccount *giver = block->owner.exchange(&receiver, std::memory_order_acq_rel)) {
    giver->release(block->bytes);
    giver->Release();
  }
}

void moveAccounting(const c10::IValue &value, MemoryAccount &receiver) {
  if (value.isTensor())
    return moveBlock(value.toTensor(), receiver);
  value.visit([&](const c10::IValue &part) {
    if (part.isTensor())
      moveBlock(part.toTensor(), receiver);
    return false;
  });
}

void stopAccounting(const at::Tensor &tensor, MemoryAccount &giver) {
  BlockHeader *block = blockOf(tensor);
  MemoryAccount *owner = &giver;
  if (!block || !block->owner.compare_exchange_strong(owner, nullptr, std::memory_order_acq_rel))
    return;
  giver.release(block->bytes);
  giver.Release();
}

} // namespace cleave::runtime
