//===- Allocations.h - What a test allocates --------------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_RUNTIME_ALLOCATIONS_H
#define CLEAVE_TESTS_UNIT_RUNTIME_ALLOCATIONS_H

#include <cstdint>

namespace cleave::runtime {

/// How often this thread has called `new`, libtorch's part included.
int64_t allocationsOfThisThread();

} // namespace cleave::runtime

#endif // CLEAVE_TESTS_UNIT_RUNTIME_ALLOCATIONS_H
