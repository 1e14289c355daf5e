//===- Arena.h - Memory that a device uses again and again ------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_ARENA_H
#define CLEAVE_RUNTIME_DEVICE_ARENA_H

#include "llvm/ADT/BitVector.h"
#include <array>
#include <cstddef>
#include <memory>
#include <mutex>

namespace cleave::runtime {

/// Keeps freed memory instead of giving it back to the system, whose pages cost more to get anew than most
/// operators take to fill them. Two-level segregated fit (Masmano, Ripoll, Crespo, Real 2004): blocks are cut
/// from chunks of the system's memory, neighbours that are free become one, and both take the same short time
/// however many there are. Any thread may allocate and free.
///
/// A block takes at most 1/16 more than was asked for. Chunks in which nothing lives are given back when no
/// free block is large enough for what is wanted, so that there are never two where one would do.
class Arena {
public:
  /// Stands at the start of every block; what follows it is the user's.
  struct Block {
    Arena *arena;

  private:
    friend class Arena;
    /// The block that ends where this one begins; null for the first of its chunk.
    Block *before;
    /// Bytes to the block that begins where this one ends; 0 for the last of its chunk, which is never free.
    size_t span;
    bool free;
    /// Of the same bin, while it is free.
    Block *next, *previous;

    Block *after() { return reinterpret_cast<Block *>(reinterpret_cast<char *>(this) + span); }
    bool isWholeChunk() { return !before && after()->span == 0; }
  };

  /// Closes the arena: it goes when its last block has been freed.
  struct Closer {
    void operator()(Arena *arena) const { arena->close(); }
  };
  using Handle = std::unique_ptr<Arena, Closer>;
  static Handle create() { return Handle(new Arena); }

  /// A block of `bytes` bytes, the Block at its start included, on a boundary of 64; null when the system has
  /// none.
  Block *allocate(size_t bytes);
  /// Gives `block` back to its arena.
  static void free(Block *block);

  /// Bytes of the system's memory that it has, free or not.
  size_t mappedBytes();

private:
  /// Spans of less than 16 units have a bin each, from there on each power of two has 16.
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
  void unmapFreeChunks();
  void close();

  std::mutex mutex;
  llvm::BitVector occupied{binCount};
  std::array<Block *, binCount> bins{};
  size_t mapped = 0;
  bool closed = false;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_ARENA_H
