//===- Allocations.cpp - What a test allocates ----------------------------===//
#include "tests/unit/runtime/Allocations.h"
#include <cstdlib>
#include <new>

static thread_local int64_t allocations = 0;

// Not inlined: GCC would see `free` beside a
// `new`.
[[gnu::noinline]] void *operator new(size_t bytes) {
  ++allocations;
  if (void *memory = std::malloc(bytes))
    return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept { std::free(memory); }

int64_t cleave::runtime::allocationsOfThisThread() { return allocations; }
