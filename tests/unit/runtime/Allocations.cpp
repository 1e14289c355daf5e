//===- Allocations.cpp - What a test allocates ----------------------------===//
#include "tests/unit/runtime/Allocations.h"
#include <cstdlib>
#include <new>
#include <utility>

static thread_local int64_t allocations = 0;
/// How many there are before the one that fails; negative: none fails.
static thread_local int64_t before = -1;
static thread_local bool hasFailed = false;

// Not inlined: GCC would see `free` beside a
// `new`.
[[gnu::noinline]] void *operator new(size_t bytes) {
  ++allocations;
  if (before >= 0 && before-- == 0) {
    hasFailed = true;
    throw std::bad_alloc();
  }
  if (void *memory = std::malloc(bytes))
    return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept { std::free(memory); }

int64_t cleave::runtime::allocationsOfThisThread() { return allocations; }

bool cleave::runtime::failAllocationOfThisThread(int64_t count) {
  before = count;
  return std::exchange(hasFailed, false);
}
