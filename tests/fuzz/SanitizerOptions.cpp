//===- SanitizerOptions.cpp - What AddressSanitizer is to do --------------===//
#ifdef __SANITIZE_ADDRESS__
#include <cstdlib>
#include <new>

/// An allocation that nothing could hold is to fail as it does otherwise. Where LLVM's allocators are used,
/// memory is not poisoned by hand: what our code instantiates of them would poison what LLVM's libraries, not
/// instrumented, do not unpoison. The runtime's arenas do so in the one target that runs plans.
extern "C" __attribute__((visibility("default"))) const char *__asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=2048:detect_leaks=0"
#ifndef CLEAVE_FUZZ_POISONS
         ":allow_user_poisoning=0"
#endif
      ;
}

// AddressSanitizer's `operator new` ends the process in such a case; this one throws, as the standard wants.
#define EXPORTED __attribute__((visibility("default")))
EXPORTED void *operator new(std::size_t size) {
  if (void *memory = std::malloc(size))
    return memory;
  throw std::bad_alloc();
}
EXPORTED void *operator new[](std::size_t size) { return operator new(size); }
EXPORTED void *operator new(std::size_t size, const std::nothrow_t &) noexcept { return std::malloc(size); }
EXPORTED void *operator new[](std::size_t size, const std::nothrow_t &) noexcept { return std::malloc(size); }
EXPORTED void operator delete(void *memory) noexcept { std::free(memory); }
EXPORTED void operator delete[](void *memory) noexcept { std::free(memory); }
EXPORTED void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
EXPORTED void operator delete[](void *memory, std::size_t) noexcept { std::free(memory); }
#endif
