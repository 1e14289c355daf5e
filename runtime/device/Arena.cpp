//===- Arena.cpp ----------------------------------------------------------===//
#include "runtime/device/Arena.h"
#include "llvm/Support/Compiler.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cstdint>
#include <new>
#include <sys/mman.h>

namespace cleave::runtime {

/// Size of a huge page.
static constexpr size_t hugePage = size_t(1) << 21;
/// Blocks smaller than `largeSpan` share chunks of `sharedChunk` bytes; a larger block that fits nowhere gets
/// a chunk of its own.
static constexpr size_t sharedChunk = size_t(1) << 25, largeSpan = size_t(1) << 23;
/// More than any machine has, small enough for `binCount`.
static constexpr size_t mostBytes = size_t(1) << 46;

//===- Bins ---------------------------------------------------------------===//

/// Index of the bin whose free blocks have at least this `span`, and less than the next bin's.
size_t Arena::binOf(size_t span) {
  const size_t units = span / unit;
  if (units < 16)
    return units;
  const size_t log = llvm::Log2_64(units);
  return (log - 3) * 16 + ((units >> (log - 4)) & 15);
}

/// Least span of a bin that holds `bytes`.
size_t Arena::roundUp(size_t bytes) {
  const size_t span = llvm::alignTo(bytes, unit);
  return llvm::alignTo(span, std::max(unit, size_t(1) << (llvm::Log2_64(span) - 4)));
}

void Arena::push(Block *block) {
  const size_t bin = binOf(block->span);
  block->free = true;
  block->previous = nullptr;
  block->next = bins[bin];
  if (block->next)
    block->next->previous = block;
  bins[bin] = block;
  occupied.set(bin);
  __asan_poison_memory_region(block + 1, block->span - sizeof(Block));
}

void Arena::remove(Block *block) {
  const size_t bin = binOf(block->span);
  (block->previous ? block->previous->next : bins[bin]) = block->next;
  if (block->next)
    block->next->previous = block->previous;
  if (!bins[bin])
    occupied.reset(bin);
  block->free = false;
  __asan_unpoison_memory_region(block + 1, block->span - sizeof(Block));
}

//===- Blocks -------------------------------------------------------------===//

/// Splits the rest of `block` beyond `span` off as a free block.
void Arena::cut(Block *block, size_t span) {
  // A block of one unit would have no room for data.
  if (block->span - span < 2 * unit)
    return;
  const size_t rest = block->span - span;
  block->span = span;
  Block *second = new (block->after()) Block{};
  second->arena = this;
  second->before = block;
  second->span = rest;
  second->after()->before = second;
  push(second);
}

/// Merges `block` with its free neighbours.
Arena::Block *Arena::join(Block *block) {
  if (Block *after = block->after(); after->free) {
    remove(after);
    block->span += after->span;
  }
  if (Block *before = block->before; before && before->free) {
    remove(before);
    before->span += block->span;
    block = before;
  }
  block->after()->before = block;
  return block;
}

Arena::Block *Arena::allocate(size_t bytes) {
  if (bytes > mostBytes)
    return nullptr;
  const size_t span = roundUp(std::max(bytes, 2 * unit));
  std::lock_guard lock(mutex);
  const int bin = occupied.find_first_in(binOf(span), binCount);
  Block *block = bin >= 0 ? bins[bin] : mapChunk(span);
  if (!block)
    return nullptr;
  remove(block);
  cut(block, span);
  used += block->span;
  peakUsed = std::max(peakUsed, used);
  return block;
}

void Arena::free(Block *block) {
  Arena *arena = block->arena;
  std::unique_lock lock(arena->mutex);
  arena->used -= block->span;
  arena->push(arena->join(block));
  if (!arena->closed)
    return;
  arena->unmapFreeChunks(0);
  const bool empty = arena->mapped == 0;
  lock.unlock();
  if (empty)
    delete arena;
}

//===- Chunks -------------------------------------------------------------===//

/// Maps `bytes` of system memory, aligned to a huge page; null if there is none.
static void *mapAligned(size_t bytes) {
  void *data = mmap(nullptr, bytes + hugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return nullptr;
  char *begin = static_cast<char *>(data);
  char *aligned = reinterpret_cast<char *>(llvm::alignTo(reinterpret_cast<uintptr_t>(data), hugePage));
  if (aligned != begin)
    munmap(begin, aligned - begin);
  munmap(aligned + bytes, begin + hugePage - aligned);
  // Falls back to small pages if the system has no huge ones.
  (void)madvise(aligned, bytes, MADV_HUGEPAGE);
  return aligned;
}

/// Maps a new free block of at least `span`.
Arena::Block *Arena::mapChunk(size_t span) {
  const size_t bytes = span < largeSpan ? sharedChunk : llvm::alignTo(span + unit, hugePage);
  const size_t peak = std::max(peakUsed, used + span), limit = peak + peak / 4;
  // Existing free chunks are too small, or this function would not have been called.
  unmapFreeChunks(limit > bytes ? limit - bytes : 0);
  void *chunk = mapAligned(bytes);
  if (!chunk)
    return nullptr;
  mapped += bytes;
  Block *block = new (chunk) Block{};
  block->arena = this;
  block->span = bytes - unit;
  Block *end = new (block->after()) Block{};
  end->before = block;
  push(block);
  return block;
}

void Arena::unmapFreeChunks(size_t maxMapped) {
  for (int bin = occupied.find_next(binOf(largeSpan) - 1); bin >= 0; bin = occupied.find_next(bin))
    for (Block *block = bins[bin], *next; block && mapped > maxMapped; block = next) {
      next = block->next;
      if (!block->isWholeChunk())
        continue;
      remove(block);
      const size_t bytes = block->span + unit;
      munmap(block, bytes);
      mapped -= bytes;
    }
}

void Arena::close() {
  std::unique_lock lock(mutex);
  closed = true;
  unmapFreeChunks(0);
  const bool empty = mapped == 0;
  lock.unlock();
  if (empty)
    delete this;
}

size_t Arena::mappedBytes() {
  std::lock_guard lock(mutex);
  return mapped;
}

} // namespace cleave::runtime
