//===- AlternateStack.h - Stack of signal handlers --------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_ALTERNATESTACK_H
#define CLEAVE_RUNTIME_BASE_ALTERNATESTACK_H

namespace cleave::runtime {

/// Gives this thread an alternate signal stack (sigaltstack) while the object lives, unless it has one
/// already. Handlers with SA_ONSTACK run on it, so they can report a stack overflow.
class AlternateStack {
public:
  AlternateStack();
  ~AlternateStack();
  AlternateStack(const AlternateStack &) = delete;
  AlternateStack &operator=(const AlternateStack &) = delete;

private:
  /// Null where the thread had a stack already, or there was no memory.
  void *memory = nullptr;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_ALTERNATESTACK_H
