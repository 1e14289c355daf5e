//===- Philox.h - A counter-based random number generator -------*- C++ -*-===//
#ifndef CLEAVE_RANDOM_PHILOX_H
#define CLEAVE_RANDOM_PHILOX_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace cleave {

/// Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Any
/// number of a stream is found by its index, in any order. Number i is the one that
/// at::Philox4_32(key, stream, i / 4) gives after i % 4 others.
struct Philox {
  uint64_t key = 0, stream = 0;

  /// Numbers 4 · block to 4 · block + 3.
  std::array<uint32_t, 4> block(uint64_t block) const;
  uint32_t operator()(uint64_t index) const { return block(index / 4)[index % 4]; }
  /// Writes numbers first … first + count - 1, modulo 2^64.
  void fill(uint64_t first, size_t count, uint32_t *numbers) const;
};

/// Constants of the generator: multipliers, and what is added to the key after each round.
inline constexpr uint32_t kPhiloxMultipliers[] = {0xD2511F53, 0xCD9E8D57};
inline constexpr uint32_t kPhiloxKeySteps[] = {0x9E3779B9, 0xBB67AE85};
inline constexpr int kPhiloxRounds = 10;

} // namespace cleave

#endif // CLEAVE_RANDOM_PHILOX_H
