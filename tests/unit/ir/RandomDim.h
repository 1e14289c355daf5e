//===- RandomDim.h - Seeded expressions for the property tests --*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_IR_RANDOMDIM_H
#define CLEAVE_TESTS_UNIT_IR_RANDOMDIM_H

#include "ir/SymbolicDim.h"
#include <algorithm>
#include <random>

namespace cleave {

/// Draws that are the same with every standard library, which its distributions are not.
class Dice {
public:
  explicit Dice(uint32_t seed) : engine(seed) {}
  /// A number from 0 to `count` - 1.
  int64_t below(uint32_t count) { return engine() % count; }

private:
  std::mt19937 engine;
};

/// A polynomial of `names` of degree at most 3 with coefficients from -12 to 12, over `divisor`.
inline SymbolicDim randomDim(Dice &dice, const std::vector<std::string> &names, int64_t divisor) {
  std::map<SymbolicDim::Monomial, int64_t> terms;
  for (int64_t term = 0, count = 1 + dice.below(4); term < count; ++term) {
    SymbolicDim::Monomial monomial;
    for (int64_t degree = dice.below(4); degree > 0; --degree)
      monomial.push_back(names[dice.below(names.size())]);
    std::sort(monomial.begin(), monomial.end());
    terms[monomial] += dice.below(25) - 12;
  }
  return SymbolicDim::make(std::move(terms), divisor);
}

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_IR_RANDOMDIM_H
