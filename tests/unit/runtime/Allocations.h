//===- Allocations.h - What a test allocates --------------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_RUNTIME_ALLOCATIONS_H
#define CLEAVE_TESTS_UNIT_RUNTIME_ALLOCATIONS_H

#include <cstdint>

namespace cleave::runtime {

/// Number of `new` calls of this thread, including libtorch's.
int64_t allocationsOfThisThread();

/// Makes this thread's allocation after `count` more fail with std::bad_alloc; negative: none. Returns true
/// if the previously chosen allocation has failed.
bool failAllocationOfThisThread(int64_t count);

} // namespace cleave::runtime

#endif // CLEAVE_TESTS_UNIT_RUNTIME_ALLOCATIONS_H
