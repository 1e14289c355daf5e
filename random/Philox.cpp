//===- Philox.cpp ---------------------------------------------------------===//
#include "random/Philox.h"
#include <algorithm>

namespace cleave {

/// Blocks that are computed side by side, one in each lane of vector registers.
static constexpr size_t kLanes = 64;

/// Blocks first … first + kLanes - 1; number n of block l is numbers[n][l].
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void
computeBlocks(uint64_t key, uint64_t stream, uint64_t first, uint32_t numbers[4][kLanes]) {
  uint32_t a[kLanes], b[kLanes], c[kLanes], d[kLanes];
  for (size_t l = 0; l < kLanes; ++l) {
    a[l] = uint32_t(first + l);
    b[l] = uint32_t((first + l) >> 32);
    c[l] = uint32_t(stream);
    d[l] = uint32_t(stream >> 32);
  }
  uint32_t key0 = uint32_t(key), key1 = uint32_t(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (size_t l = 0; l < kLanes; ++l) {
      const uint64_t left = uint64_t(kPhiloxMultipliers[0]) * a[l];
      const uint64_t right = uint64_t(kPhiloxMultipliers[1]) * c[l];
      a[l] = uint32_t(right >> 32) ^ b[l] ^ key0;
      b[l] = uint32_t(right);
      c[l] = uint32_t(left >> 32) ^ d[l] ^ key1;
      d[l] = uint32_t(left);
    }
    key0 += kPhiloxKeySteps[0];
    key1 += kPhiloxKeySteps[1];
  }
  for (size_t l = 0; l < kLanes; ++l) {
    numbers[0][l] = a[l];
    numbers[1][l] = b[l];
    numbers[2][l] = c[l];
    numbers[3][l] = d[l];
  }
}

std::array<uint32_t, 4> Philox::block(uint64_t block) const {
  std::array<uint32_t, 4> x{uint32_t(block), uint32_t(block >> 32), uint32_t(stream), uint32_t(stream >> 32)};
  uint32_t key0 = uint32_t(key), key1 = uint32_t(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t left = uint64_t(kPhiloxMultipliers[0]) * x[0];
    const uint64_t right = uint64_t(kPhiloxMultipliers[1]) * x[2];
    x = {uint32_t(right >> 32) ^ x[1] ^ key0, uint32_t(right), uint32_t(left >> 32) ^ x[3] ^ key1,
         uint32_t(left)};
    key0 += kPhiloxKeySteps[0];
    key1 += kPhiloxKeySteps[1];
  }
  return x;
}

void Philox::fill(uint64_t first, size_t count, uint32_t *numbers) const {
  uint32_t blocks[4][kLanes];
  size_t done = 0;
  // To the next whole block, and what is left in the end.
  while (done < count && (first + done) % 4 != 0) {
    numbers[done] = (*this)(first + done);
    ++done;
  }
  while (done + 4 * kLanes <= count && (first + done) / 4 <= UINT64_MAX / 4 - kLanes) {
    computeBlocks(key, stream, (first + done) / 4, blocks);
    for (size_t l = 0; l < kLanes; ++l)
      for (size_t n = 0; n < 4; ++n)
        numbers[done + 4 * l + n] = blocks[n][l];
    done += 4 * kLanes;
  }
  for (; done < count; done += std::min<size_t>(4, count - done)) {
    const auto last = block((first + done) / 4);
    std::copy_n(last.begin(), std::min<size_t>(4, count - done), numbers + done);
  }
}

} // namespace cleave
