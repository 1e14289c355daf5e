//===- RandomDim.h - Seeded expressions for the property tests --*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_IR_RANDOMDIM_H
#define CLEAVE_TESTS_UNIT_IR_RANDOMDIM_H

#include "ir/SymbolicDim.h"
#include "tests/unit/Dice.h"
#include <algorithm>

namespace cleave {

/// A polynomial of `names` of degree at most 3 with coefficients from -12 to 12, over `divisor`.
inline SymbolicDim randomDim(Dice &dice, const std::vector<std::string> &names, int64_t divisor) {
  std::map<SymbolicDim::Monomial, int64_t> terms;
  for (int64_t term = 0, count = 1 + dice.below(4); term < count; ++term) {
    SymbolicDim::Monomial monomial;
    for (int64_t degree = dice.below(4); degree > 0; --degree)
      monomial.push_back(names[dice.below(names.size())]);
    std::sort(monomial.begin(), monomial.end());
    terms[monomial] += int64_t(dice.below(25)) - 12;
  }
  return SymbolicDim::make(std::move(terms), divisor);
}

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_IR_RANDOMDIM_H
