//===- RandomFunction.h - Seeded functions for the property tests -*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_PARTITIONER_RANDOMFUNCTION_H
#define CLEAVE_TESTS_UNIT_PARTITIONER_RANDOMFUNCTION_H

#include "tests/unit/partitioner/FunctionText.h"

namespace cleave {

/// The text of a function of weights alone: products, views and joins of integers, so that results are exact.
/// Sizes are few, so that dimensions meet which have nothing to do with each other.
class RandomFunction : public FunctionText {
public:
  RandomFunction(Dice &dice, uint32_t steps);

private:
  int64_t size() { return std::vector<int64_t>{2, 4, 6, 6, 4}[dice.below(5)]; }

  void addStep(const Tensor &x, uint32_t kind);
  void addProduct(const Tensor &x);
  void addView(const Tensor &x);
  void addReorder(const Tensor &x, uint32_t kind);
  void addSplit(const Tensor &x, uint32_t dim);
  void addJoin(const Tensor &x, uint32_t dim);
};

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_PARTITIONER_RANDOMFUNCTION_H
