//===- Arena.h - Caching allocator of one device ----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_ARENA_H
#define CLEAVE_RUNTIME_DEVICE_ARENA_H

#include "llvm/ADT/BitVector.h"
#include <array>
#include <cstddef>
#include <memory>
#include <mutex>

namespace cleave::runtime {

/// Keeps freed memory instead of returning it to the system, whose fresh pages cost more than most operators
/// take to fill them. Algorithm: two-level segregated fit (Masmano, Ripoll, Crespo, Real 2004). Blocks are
/// split from chunks of system memory, free neighbours are merged, and both take constant time. Thread-safe.
///
/// A block takes at most 1/16 more than was asked for. Where no free block is large enough, unused chunks are
/// returned to the system first, if with the new one the arena would hold more than 1/4 beyond the most that
/// has been in use: requests repeat the same allocations, and find the chunks that the previous one left.
class Arena {
public:
  /// Header at the start of every block; the user's memory follows it.
  struct Block {
    Arena *arena;

  private:
    friend class Arena;
    /// The block that ends where this one begins; null for the first of its chunk.
    Block *before;
    /// Bytes to the next block; 0 for the last of its chunk, which is never free.
    size_t span;
    bool free;
    /// Free list of the block's bin, while it is free.
    Block *next, *previous;

    Block *after() { return reinterpret_cast<Block *>(reinterpret_cast<char *>(this) + span); }
    bool isWholeChunk() { return !before && after()->span == 0; }
  };

  /// Closes the arena: it is destroyed when its last block has been freed.
  struct Closer {
    void operator()(Arena *arena) const { arena->close(); }
  };
  using Handle = std::unique_ptr<Arena, Closer>;
  static Handle create() { return Handle(new Arena); }

  /// Allocates a block of `bytes` bytes, including the Block header, aligned to 64 bytes. Null when the
  /// system has no memory.
  Block *allocate(size_t bytes);
  /// Returns `block` to its arena.
  static void free(Block *block);

  /// Bytes of system memory that the arena holds, free or not.
  size_t mappedBytes();

private:
  /// Spans of less than 16 units have a bin each; above that, each power of two has 16 bins.
  static constexpr size_t unit = 64, binCount = 640;

  Arena() = default;
  ~Arena() = default;
  static size_t binOf(size_t span);
  static size_t roundUp(size_t bytes);
  void push(Block *block);
  void remove(Block *block);
  void cut(Block *block, size_t span);
  Block *join(Block *block);
  Block *mapChunk(size_t span);
  /// Returns unused chunks, small ones first, until the arena holds at most `most` bytes.
  void unmapFreeChunks(size_t most);
  void close();

  std::mutex mutex;
  llvm::BitVector occupied{binCount};
  std::array<Block *, binCount> bins{};
  /// Bytes of chunks, of blocks in use, and the most of the latter.
  size_t mapped = 0, used = 0, mostUsed = 0;
  bool closed = false;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_ARENA_H
