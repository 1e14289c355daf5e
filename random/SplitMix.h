//===- SplitMix.h - The mixing function of SplitMix64 -----------*- C++ -*-===//
#ifndef CLEAVE_RANDOM_SPLITMIX_H
#define CLEAVE_RANDOM_SPLITMIX_H

#include <cstdint>

namespace cleave {

/// Number n of SplitMix64 with seed s is mix64(s + n * kSplitMixStep), from n = 1. Source: Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
inline constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15;

/// A bijection of 64-bit numbers; numbers that are close give results that look independent.
constexpr uint64_t mix64(uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

} // namespace cleave

#endif // CLEAVE_RANDOM_SPLITMIX_H
