//===- Dice.h - Random draws of the property tests --------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_DICE_H
#define CLEAVE_TESTS_UNIT_DICE_H

#include <cstdint>
#include <random>

namespace cleave {

/// Draws that are the same with every standard library, which its distributions are not.
class Dice {
public:
  explicit Dice(uint32_t seed) : engine(seed) {}
  /// A number from 0 to `count` - 1.
  uint32_t below(uint32_t count) { return engine() % count; }

private:
  std::mt19937 engine;
};

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_DICE_H
