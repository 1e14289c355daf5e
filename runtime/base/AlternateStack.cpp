//===- AlternateStack.cpp - Stack of signal handlers ----------------------===//
#include "runtime/base/AlternateStack.h"
#include <csignal>
#include <cstddef>
#include <sys/mman.h>

namespace cleave::runtime {

/// Enough for handlers and for the saved registers of any processor.
static constexpr size_t kBytes = 128 << 10;

AlternateStack::AlternateStack() {
  stack_t present;
  if (sigaltstack(nullptr, &present) != 0 || !(present.ss_flags & SS_DISABLE))
    return;
  void *mapped =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (mapped == MAP_FAILED)
    return;
  stack_t stack = {};
  stack.ss_sp = mapped;
  stack.ss_size = kBytes;
  if (sigaltstack(&stack, nullptr) == 0)
    memory = mapped;
  else
    munmap(mapped, kBytes);
}

AlternateStack::~AlternateStack() {
  if (!memory)
    return;
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  munmap(memory, kBytes);
}

} // namespace cleave::runtime
