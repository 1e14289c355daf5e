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
/// A block takes at most 1/16 more than was asked for. If no free block is large enough, the arena maps a new
/// chunk. Before that it returns free chunks, smallest first, until it holds (the new chunk included) at most
/// 5/4 of the peak of bytes in use. So it keeps the chunks that the next request, with the same allocations,
/// will need.
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
  /// Returns free chunks, smallest first, until the arena holds at most `maxMapped` bytes.
  void unmapFreeChunks(size_t maxMapped);
  void close();

  std::mutex mutex;
  llvm::BitVector occupied{binCount};
  std::array<Block *, binCount> bins{};
  /// Bytes of chunks.
  size_t mapped = 0;
  /// Bytes of blocks in use, and the largest value of it so far.
  size_t used = 0, peakUsed = 0;
  bool closed = false;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_ARENA_H
