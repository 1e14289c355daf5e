//===- GuardedMemory.h - Tensors between pages that trap --------*- C++ -*-===//
#ifndef CLEAVE_TESTS_OPERATORS_GUARDEDMEMORY_H
#define CLEAVE_TESTS_OPERATORS_GUARDEDMEMORY_H

#include <cstddef>
#include <cstdint>

namespace cleave::operators {

/// Whether a tensor's memory begins right behind a guard page (underruns trap), or ends right before one
/// (overruns trap).
enum class Side : uint8_t { Begin, End };

/// From now on every tensor on the CPU has pages of its own, with 1 GiB on both sides that traps. For the
/// whole process, and for good.
void guardTensors();

/// How memory is given from now on: at which side, and what it holds before anybody has written to it.
void setGuards(Side side, uint8_t poison);

/// The most bytes that tensors may hold at one time; beyond that allocating throws, as where a machine has no
/// more.
constexpr size_t kMaxTensorBytes = size_t(256) << 20;

/// Whether `address` is on a page that traps.
bool isGuard(const void *address);

} // namespace cleave::operators

#endif // CLEAVE_TESTS_OPERATORS_GUARDEDMEMORY_H
