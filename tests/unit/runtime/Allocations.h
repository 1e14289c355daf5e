//===- Allocations.h - What a test allocates --------------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_RUNTIME_ALLOCATIONS_H
#define CLEAVE_TESTS_UNIT_RUNTIME_ALLOCATIONS_H

#include <cstdint>

namespace cleave::runtime {

/// How often this thread has called `new`, libtorch's part included.
int64_t allocationsOfThisThread();

/// Has the allocation after `count` more of this thread fail, as without memory; negative: none. True where
/// the one that was to fail before has failed.
bool failAllocationOfThisThread(int64_t count);

} // namespace cleave::runtime

#endif // CLEAVE_TESTS_UNIT_RUNTIME_ALLOCATIONS_H
