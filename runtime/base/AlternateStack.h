//===- AlternateStack.h - Where handlers run after an overflow --*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_ALTERNATESTACK_H
#define CLEAVE_RUNTIME_BASE_ALTERNATESTACK_H

namespace cleave::runtime {

/// While it lives, signal handlers that ask for it (SA_ONSTACK) run on a stack of their own in this thread,
/// unless the thread has one already: they can tell of a stack that has overflowed.
class AlternateStack {
public:
  AlternateStack();
  ~AlternateStack();
  AlternateStack(const AlternateStack &) = delete;
  AlternateStack &operator=(const AlternateStack &) = delete;

private:
  /// Null where the thread had one, or there was no memory.
  void *memory = nullptr;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_ALTERNATESTACK_H
