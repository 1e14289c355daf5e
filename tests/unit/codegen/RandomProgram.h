//===- RandomProgram.h - Seeded functions of many operators -----*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_CODEGEN_RANDOMPROGRAM_H
#define CLEAVE_TESTS_UNIT_CODEGEN_RANDOMPROGRAM_H

#include "tests/unit/partitioner/RandomGraph.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// The text of a function `f` of inputs and weights, with the operators that partitioning treats specially
/// among others: views by numbers, lists and -1, lookups, products with what they add, convolutions in
/// groups, joins and cuts of all kinds, control flow, states and boundaries. Sizes are few, so that dimensions
/// meet which have nothing to do with each other.
class RandomProgram {
public:
  /// \param isExact  integers and operators that compute with these alone; else float64 and norms, attention
  /// and convolutions too.
  RandomProgram(Dice &dice, uint32_t steps, bool isExact);
  std::string text() const;

private:
  using Shape = std::vector<int64_t>;
  struct Tensor {
    std::string name;
    Shape shape;
  };
  struct Operand {
    std::string name, type;
  };

  std::string type(const Shape &shape) const { return type(shape, isExact ? "i64" : "f64"); }
  static std::string type(const Shape &shape, const std::string &element);
  std::string name() { return "%v" + std::to_string(count++); }
  int64_t size() { return std::vector<int64_t>{2, 4, 6, 6, 4, 3, 5}[dice.below(7)]; }
  Tensor any() { return values[values.size() - 1 - dice.below(1 + dice.below(values.size()))]; }
  template <typename Predicate> Tensor find(Predicate fits, const Shape &shape);
  Tensor weight(const Shape &shape);
  Tensor like(const Shape &shape);
  Operand operand(const Tensor &tensor) const { return {tensor.name, type(tensor.shape)}; }
  Operand constant(const std::string &value, const std::string &type);
  Operand integer(int64_t value) { return constant(std::to_string(value) + " : i64", "i64"); }
  Operand real(const std::string &value) { return constant(value + " : f64", "f64"); }
  Operand flag(bool value) { return constant(value ? "true" : "false", "i1"); }
  Operand none() { return constant("unit", "none"); }
  Operand integers(const Shape &values);
  /// A list of constants in sight, or a constant list.
  Operand sizes(const Shape &values);
  Operand list(const std::vector<Tensor> &items);
  Operand input(const Shape &shape, const std::string &element);
  Tensor call(const std::string &op, const std::vector<Operand> &operands, const Shape &result);
  /// The pieces of a call that gives a list; takes some of them, or the list as it is.
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

  Dice &dice;
  const bool isExact;
  std::string arguments, head, body, tail;
  std::vector<Tensor> values;
  uint32_t count = 0, structures = 0;
};

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_CODEGEN_RANDOMPROGRAM_H
