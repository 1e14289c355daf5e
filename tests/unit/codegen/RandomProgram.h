//===- RandomProgram.h - Seeded functions of many operators -----*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_CODEGEN_RANDOMPROGRAM_H
#define CLEAVE_TESTS_UNIT_CODEGEN_RANDOMPROGRAM_H

#include "tests/unit/partitioner/FunctionText.h"

namespace cleave {

/// The text of a function `f` of inputs and weights, with the operators that partitioning treats specially
/// among others: views by numbers, lists and -1, lookups, products with what they add, convolutions in
/// groups, joins and cuts of all kinds, control flow, states and boundaries. Sizes are few, so that
/// dimensions meet which have nothing to do with each other.
class RandomProgram : public FunctionText {
public:
  /// \param isExact  integers and operators that compute with these alone; else float64 and norms, attention
  /// and convolutions too.
  RandomProgram(Dice &dice, uint32_t steps, bool isExact);

private:
  int64_t size() { return std::vector<int64_t>{2, 4, 6, 6, 4, 3, 5}[dice.below(7)]; }
  /// The sizes as an operand: a `cleave.list` operation over integer constants, or a constant of list type.
  Operand sizes(const Shape &values);
  /// Calls `op`, which returns a list of pieces, and uses one piece, all of them, or the whole list.
  void pieces(const std::string &op, const std::vector<Operand> &operands, const Shape &shape, uint32_t dim,
              const Shape &sizes);

  void addStep(const Tensor &x);
  void addProduct(const Tensor &x);
  void addLinear(const Tensor &x);
  void addMatrixProduct(const Tensor &x);
  void addElementwise(const Tensor &x);
  void addView(const Tensor &x);
  void addReorder(const Tensor &x);
  void addSplit(const Tensor &x);
  void addJoin(const Tensor &x);
  void addCut(const Tensor &x);
  void addRepeat(const Tensor &x);
  void addExpand(const Tensor &x);
  void addSum(const Tensor &x);
  void addLookup();
  void addFill(const Tensor &x);
  void addStructure(const Tensor &x);
  void addNorm(const Tensor &x);
  void addConvolution();
  void addAttention();

  const bool isExact;
  uint32_t structures = 0;
};

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_CODEGEN_RANDOMPROGRAM_H
